//! Texts without what differs from one day to the next.

/// What every time is shown as, as wide as the real one.
const MOMENT: &str = "2026-11-16T09:30:00.000Z";

/// One answer. Where the width of something differs, columns stand two spaces apart.
pub fn block(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    let mut differs = false;
    let lines: Vec<_> = text.lines().map(|one| line(one, &mut differs)).collect();
    let mut plain = match differs {
        true => lines.iter().map(|line| squeezed(line)).collect::<Vec<_>>().join("\n"),
        false => lines.join("\n"),
    };
    if text.ends_with('\n') {
        plain.push('\n');
    }
    plain
}

/// One line; `differs` becomes true if something of another width was put in.
fn line(line: &str, differs: &mut bool) -> String {
    // What is typed is always the same.
    if line.contains("$ ") {
        return line.to_owned();
    }
    let mut words: Vec<String> = line.split(' ').map(word).collect();
    for at in 0..words.len() {
        let next = words.get(at + 1).cloned().unwrap_or_default();
        if words[at] == "in" && is_length(&next) {
            words[at + 1] = "‹time›".into();
            *differs = true;
        } else if is_length(&words[at]) && next == "ago" {
            words[at] = "‹time›".into();
            words.remove(at + 1);
            words.push(String::new());
            *differs = true;
        } else if words[at] == "now" && next != "work" && at > 0 && is_cell(&words, at) {
            words[at] = "‹time›".into();
            *differs = true;
        } else if next == "MiB" {
            words[at] = "20000".into();
        } else if let Some((life, position)) = words[at].split_once('-').filter(|_| true)
            && is_life(life)
            && position.parse::<u64>().is_ok()
        {
            words[at] = format!("‹life›-{position}");
            *differs = true;
        } else if is_life(words[at].trim_end_matches([':', ',', '.'])) {
            let rest = words[at].trim_start_matches(|c: char| c.is_ascii_hexdigit()).to_owned();
            words[at] = format!("‹life›{rest}");
            *differs = true;
        }
    }
    words.join(" ").trim_end().to_owned()
}

/// Times and ports by themselves.
fn word(word: &str) -> String {
    if word.len() == MOMENT.len() && word.ends_with('Z') && word.as_bytes()[10] == b'T' {
        return MOMENT.to_owned();
    }
    match word.split_once("http://127.0.0.1:") {
        Some((before, port)) if port.len() > 1 => {
            let rest = port.trim_start_matches(|c: char| c.is_ascii_digit());
            format!("{before}http://127.0.0.1:7117{rest}")
        }
        Some(_) | None => word.to_owned(),
    }
}

/// Whether a word stands alone in its cell.
fn is_cell(words: &[String], at: usize) -> bool {
    words[at - 1].is_empty() && words.get(at + 1).is_none_or(String::is_empty)
}

fn is_length(word: &str) -> bool {
    let digits = word.trim_end_matches(['s', 'm', 'h']);
    digits.len() < word.len() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// The number of a store's life: 64 bits of chance in hex, so nearly never less than 12 digits.
fn is_life(word: &str) -> bool {
    let hex = word.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    (12..=16).contains(&word.len()) && hex
}

fn squeezed(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let cells: Vec<_> =
        line.trim_start().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    format!("{}{}", &line[..indent], cells.join("  "))
}
