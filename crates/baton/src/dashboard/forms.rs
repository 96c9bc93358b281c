//! Forms that stand beside a page until somebody wants them: a new task, and many tasks at once. Each is
//! a request to the table, which the script sends.

use maud::{Markup, html};

use super::sheet::Sheet;
use super::words::heading;

const PRIORITIES: [&str; 4] = ["low", "normal", "high", "urgent"];

/// A new task.
#[must_use]
pub fn adding(sheet: &Sheet) -> Markup {
    let Some((project, stages)) = &sheet.project else { return html! {} };
    html! {
        dialog #adding aria-labelledby="adding-name" {
            form.act data-method="POST" data-path="/v1/tasks" data-done="Added" {
                h2 #adding-name { "New task in " (project) }
                input type="hidden" name="project" value=(project);
                label { "What" input name="title" required maxlength="256" autocomplete="off"; }
                label { "What should be achieved, at length" textarea name="body" rows="5" maxlength="65536" {} }
                div.pair {
                    label {
                        "Where"
                        select name="stage" {
                            option value="" { "Backlog" }
                            @for stage in stages { option value=(stage) { (heading(stage)) } }
                        }
                    }
                    label { "Priority" (priorities()) }
                }
                div.buttons {
                    button type="button" data-close { "Cancel" }
                    button.primary type="submit" { "Add" kbd { "⌘↵" } }
                }
            }
        }
    }
}

fn priorities() -> Markup {
    html! {
        select name="priority" {
            @for word in PRIORITIES {
                option value=(word) selected[word == "normal"] { (heading(&format!("{word} "))) }
            }
        }
    }
}

/// What can be done with many tasks at once, and the question before it is done.
#[must_use]
pub fn bulk(sheet: &Sheet) -> Markup {
    let stages = sheet.project.as_ref().map_or(&[][..], |(_, stages)| stages.as_slice());
    html! {
        div #bulk role="toolbar" aria-label="With those that are chosen" hidden {
            b {}
            @for (operation, name) in [("run_retry", "Try again"), ("run_cancel", "Cancel"), ("task_close", "Close"), ("task_edit", "Priority")] {
                button type="button" data-bulk=(operation) { (name) }
            }
            @if !stages.is_empty() { button type="button" data-bulk="task_move" { "Move" } }
            button type="button" data-choose-all { "All shown" kbd { "⇧X" } }
            button type="button" data-choose-none { "None" kbd { "esc" } }
        }
        dialog #bulk-ask aria-labelledby="bulk-name" {
            form #bulk-form {
                h2 #bulk-name {}
                p.which.quiet {}
                label data-field="reason" { "Why" input name="reason" required maxlength="2048"; }
                label data-field="priority" { "Priority" (priorities()) }
                label data-field="stage" {
                    "Where"
                    select name="stage" {
                        option value="backlog" { "Backlog" }
                        @for stage in stages { option value=(stage) { (heading(stage)) } }
                    }
                }
                div.buttons {
                    button type="button" data-close { "No" }
                    button.primary type="submit" {}
                }
            }
        }
    }
}
