//! The pages of `docs/reference` that people look things up in, read from the same tables that
//! programs are answered from.

use crate::aliases::ALIASES;
use crate::operations;
use crate::problem::CODES;

use super::HANDWRITTEN;

const GENERATED: &str = "Generated from the code; `./check bless` rewrites it.";

/// What the program exits with, and what that means.
pub(super) const EXITS: &[(u8, &str)] = &[
    (0, "It was done, or it was so already."),
    (
        1,
        "Something broke, is full or is overloaded; `doctor` and `audit verify` found something wrong.",
    ),
    (2, "What was typed or sent cannot be understood. Nothing was asked for, nothing changed."),
    (3, "There is no such thing, or it is not yours to see."),
    (4, "The caller may not do this: no key, a dead key, too few scopes, or not a person."),
    (5, "It cannot be done as things stand: a conflict, a lost lease, a hold, a limit."),
    (6, "The server cannot be reached, or is stopping."),
    (7, "The outcome is unknown. Ask again with the `--idempotency-key` that was printed."),
    (10, "A completion was refused: lines of the contract are open, and each is listed."),
    (11, "Only a person may do this."),
    (14, "There is nothing to claim."),
    (65, "`serve`: the data are not to be used by this binary (newer, damaged, not ours)."),
    (74, "`serve`: the disk failed; a start anew recovers to the last answer that was given."),
    (75, "`serve`: somebody else has the folder or the address."),
    (124, "`--timeout` ran out."),
    (130, "Interrupted by Ctrl-C."),
];

/// `problems.md`.
#[must_use]
pub fn problems() -> String {
    let mut page = format!(
        "# Problems\n\n{GENERATED}\n\nEvery refusal is an RFC 9457 problem with `code`, `detail`, \
         `next` (commands), `certainty`\n(`did_not_happen`, `happened`, `unknown`) and `retryable` \
         (whether the same request may succeed later).\nCodes do not change between versions.\n\n\
         | code | status | exit | retryable | title | what usually helps |\n|---|---|---|---|---|---|\n"
    );
    for code in CODES {
        let retryable = if code.retryable { "yes" } else { "no" };
        let next = format!("`{}`", code.next);
        let (word, status, exit, title) = (code.word, code.status, code.exit, code.title);
        page.push_str(&format!(
            "| `{word}` | {status} | {exit} | {retryable} | {title} | {next} |\n"
        ));
    }
    page
}

/// `exit-codes.md`.
#[must_use]
pub fn exit_codes() -> String {
    let mut page = format!(
        "# Exit codes\n\n{GENERATED}\n\n| exit | what it means | codes of problems |\n|---|---|---|\n"
    );
    for (exit, sentence) in EXITS {
        let codes = CODES.iter().filter(|code| code.exit == *exit);
        let codes: Vec<_> = codes.map(|code| format!("`{}`", code.word)).collect();
        page.push_str(&format!("| {exit} | {sentence} | {} |\n", codes.join(", ")));
    }
    page
}

/// `operations.md`.
#[must_use]
pub fn listing() -> String {
    let mut page = format!(
        "# Operations\n\n{GENERATED} Arguments and answers of each are in \
         [surface.txt](../../crates/baton/surface.txt)\nand, for programs, in \
         [openapi.json](../../crates/baton/openapi.json), which a server also answers at \
         `/v1/openapi.json`.\n\n\
         | command | REST | scope | who | what it does |\n|---|---|---|---|---|\n"
    );
    for entry in operations::all() {
        let about = &entry.about;
        page.push_str(&format!(
            "| `baton {} {}` | `{} {}` | `{}` | {} | {} |\n",
            about.noun,
            about.verb,
            about.method.word(),
            about.path,
            about.needs(),
            about.audience.word(),
            about.summary
        ));
    }
    page.push_str(
        "\n## Everyday commands\n\n| command | stands for | what it does |\n|---|---|---|\n",
    );
    for alias in ALIASES {
        let positionals = alias.positionals.iter().map(|name| format!(" <{name}>"));
        page.push_str(&format!(
            "| `baton {}{}` | `baton {} {}` | {} |\n",
            alias.name,
            positionals.collect::<String>(),
            alias.noun,
            alias.verb,
            alias.summary
        ));
    }
    page.push_str("\n## Besides the table\n\n| REST | needs | what it answers |\n|---|---|---|\n");
    for route in HANDWRITTEN {
        let (method, path) = (route.method.word(), route.path);
        let (needs, summary) = (route.needs.words(), route.summary);
        page.push_str(&format!("| `{method} {path}` | {needs} | {summary} |\n"));
    }
    page
}
