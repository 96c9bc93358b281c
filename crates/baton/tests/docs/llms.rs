//! `llms.txt`: where a program that reads for somebody finds what it looks for.

use std::fs;

use baton::operations;
use expect_test::expect_file;

use crate::root;

/// Pages in the order in which a newcomer reads them: folders are listed whole.
const SECTIONS: &[(&str, &[&str])] = &[
    ("Start", &["README.md", "docs/glossary.md", "ARCHITECTURE.md"]),
    ("Guides", &["docs/guides"]),
    ("Reference", &["docs/reference", "docs/worker-protocol.md", "docs/reliability.md"]),
];

fn pages(place: &str) -> Vec<String> {
    let path = root().join(place);
    if !path.is_dir() {
        return vec![place.to_owned()];
    }
    let found = fs::read_dir(path).expect("it can be read");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<_> = found.map(|entry| name(entry.expect("it is there"))).collect();
    names.sort();
    names.into_iter().map(|name| format!("{place}/{name}")).collect()
}

/// The title of a page, and the headings below it.
fn told(path: &str) -> String {
    let text = fs::read_to_string(root().join(path)).expect("it can be read");
    let heading = |mark: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.strip_prefix(mark)).map(str::to_owned).collect()
    };
    let title = heading("# ").into_iter().next().unwrap_or_else(|| path.to_owned());
    let below = heading("## ").join("; ");
    let below = if below.is_empty() { below } else { format!(": {below}") };
    format!("- [{title}]({path}){below}\n")
}

#[test]
fn what_there_is_to_read_is_listed() {
    let mut text = "# Baton\n\n> Makes the work of autonomous agents durable: leases, checkpoints, hand-off, and \
                    \"done\" only with proof. One binary, `baton`.\n"
        .to_owned();
    for (section, places) in SECTIONS {
        text.push_str(&format!("\n## {section}\n\n"));
        places.iter().flat_map(|place| pages(place)).for_each(|page| text.push_str(&told(&page)));
    }
    text.push_str("\n## Operations\n\nEach is a command `baton NOUN VERB`, a request, and a tool `noun_verb`.\n\n");
    for entry in operations::all() {
        let about = &entry.about;
        let (noun, verb, summary) = (about.noun, about.verb, about.summary);
        let (method, path) = (about.method.word(), about.path);
        text.push_str(&format!("- `{noun} {verb}` ({method} {path}): {summary}\n"));
    }
    expect_file!["../../../../llms.txt"].assert_eq(&text);
}
