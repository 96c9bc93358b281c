//! Patterns of paths: `*` stands for any characters of one part, `**` for any number of whole parts.

use crate::limits::STARS_MAX;

/// Whether a path is one of those that the pattern stands for.
#[must_use]
pub fn matches(pattern: &str, path: &str) -> bool {
    let (wanted, parts): (Vec<&str>, Vec<&str>) =
        (pattern.split('/').collect(), path.split('/').collect());
    fits(&wanted, &parts, |part| *part == "**", |wanted, part| fits_part(wanted, part))
}

/// Whether it stands for more than itself.
#[must_use]
pub fn is_pattern(text: &str) -> bool {
    text.contains('*')
}

/// Whether its stars are few, and each stands where it means something.
#[must_use]
pub fn is_sound(pattern: &str) -> bool {
    let whole = pattern.split('/').all(|part| part == "**" || !part.contains("**"));
    whole && pattern.matches('*').count() <= STARS_MAX
}

fn fits_part(wanted: &str, part: &str) -> bool {
    fits(wanted.as_bytes(), part.as_bytes(), |byte| *byte == b'*', |one, two| one == two)
}

/// Goes back only to the last star: an earlier one has nothing to gain from taking more. So the cost
/// is the product of both lengths, whatever the pattern.
fn fits<P, T>(
    wanted: &[P],
    text: &[T],
    star: impl Fn(&P) -> bool,
    same: impl Fn(&P, &T) -> bool,
) -> bool {
    let (mut at, mut seen, mut back) = (0, 0, None);
    while seen < text.len() {
        match wanted.get(at) {
            Some(one) if star(one) => {
                back = Some((at, seen));
                at += 1;
            }
            Some(one) if same(one, &text[seen]) => (at, seen) = (at + 1, seen + 1),
            Some(_) | None => {
                let Some((last, taken)) = back else { return false };
                back = Some((last, taken + 1));
                (at, seen) = (last + 1, taken + 1);
            }
        }
    }
    wanted[at..].iter().all(star)
}
