//! Texts without what differs from one day to the next.

/// What every time is shown as.
const MOMENT: &str = "2026-11-16T09:30:00.000Z";

/// Letters and digits of the id of a key.
const KEY_ID_CHARS: usize = 12;

/// One answer. Where the width of something differs, columns stand two spaces apart.
pub fn block(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    let mut differs = false;
    let lines: Vec<_> = isolation(text.lines()).map(|one| line(&one, &mut differs)).collect();
    let mut plain = match differs {
        true => lines.iter().map(|line| squeezed(line)).collect::<Vec<_>>().join("\n"),
        false => lines.join("\n"),
    };
    if text.ends_with('\n') {
        plain.push('\n');
    }
    plain
}

/// How agents are kept apart is true of one machine; so is what would help.
fn isolation<'a>(lines: impl Iterator<Item = &'a str>) -> impl Iterator<Item = String> {
    let mut was_it = false;
    lines.filter_map(move |line| {
        let is_it = line.split_whitespace().nth(1) == Some("isolation");
        let is_its_fix = was_it && line.trim_start().starts_with("fix: ");
        was_it = is_it;
        match (is_it, is_its_fix) {
            (true, _) => {
                Some(format!("{:<6} {:<12} ‹how agents are kept apart›", "ok", "isolation"))
            }
            (false, true) => None,
            (false, false) => Some(line.to_owned()),
        }
    })
}

/// One line; `differs` becomes true if something of another width was put in.
fn line(line: &str, differs: &mut bool) -> String {
    // What is typed is always the same; a log has the time before what an agent typed.
    let is_logged = line.split(' ').next().is_some_and(|first| word(first) != first);
    if line.contains("$ ") && !is_logged {
        return line.to_owned();
    }
    // The ids of keys in the demo, which nobody veils by name.
    if let Some(("id", id)) = line.split_once(' ').map(|(name, id)| (name, id.trim()))
        && id.len() == KEY_ID_CHARS
    {
        *differs = true;
        return "id  ‹key›".to_owned();
    }
    let mut words: Vec<String> = line.split(' ').map(word).collect();
    *differs |= words.iter().any(|word| word == MOMENT);
    for at in 0..words.len() {
        let next = words.get(at + 1).cloned().unwrap_or_default();
        if words[at] == "in" && is_length(&next) {
            words[at + 1] = "‹time›".into();
            // `in 23h 59m` is one time.
            if words.get(at + 2).is_some_and(|word| is_length(word)) {
                words.remove(at + 2);
                words.push(String::new());
            }
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
        } else if next == "seals" {
            // Time makes them, and a day may take longer.
            words[at] = "0".into();
        } else if let Some(plain) = without_life(&words[at]) {
            words[at] = plain;
            *differs = true;
        }
    }
    words.join(" ").trim_end().to_owned()
}

/// Times and ports by themselves.
fn word(word: &str) -> String {
    let is_moment = (20..=MOMENT.len()).contains(&word.len()) && word.ends_with('Z');
    if is_moment && word.as_bytes()[10] == b'T' {
        return MOMENT.to_owned();
    }
    let bytes = word.as_bytes();
    let is_clock = bytes.len() == 8 && bytes[2] == b':' && bytes[5] == b':';
    if is_clock && word.bytes().filter(u8::is_ascii_digit).count() == 6 {
        return MOMENT[11..19].to_owned();
    }
    match word.split_once("http://127.0.0.1:") {
        // A port of chance has four digits or more.
        Some((before, port)) if port.len() > 3 => {
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

/// A word without the number of a store's life: 64 bits of chance in hex, so nearly never less than
/// 12 digits.
fn without_life(word: &str) -> Option<String> {
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    let runs = word.split(|c: char| !c.is_ascii_alphanumeric());
    let mut lives = runs.filter(|run| (12..=16).contains(&run.len()) && run.chars().all(is_hex));
    lives.next().map(|life| word.replace(life, "‹life›"))
}

fn squeezed(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let cells: Vec<_> =
        line.trim_start().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    format!("{}{}", &line[..indent], cells.join("  "))
}
