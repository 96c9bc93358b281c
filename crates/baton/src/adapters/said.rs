//! What an agent said, in lines for people to read. A pure fold over the same pieces as everything else that is
//! known of a program: the same spool gives the same lines.

use serde_json::Value;

use super::lines::{Line, Lines};
use super::seen::Heard;
use super::{Program, fields};

/// Lines of what one tool printed that are shown; the rest is counted. The whole is in the spool.
const OUTPUT_LINES_MAX: usize = 24;

/// Whose line it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Voice {
    /// The agent speaks.
    Said,
    /// It uses a tool.
    Tool,
    /// What a tool printed.
    Output,
    /// Its program complains, or something went wrong.
    Error,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub voice: Voice,
    pub text: String,
}

/// Puts what a program prints into lines.
#[derive(Debug)]
pub struct Narrator {
    program: Program,
    out: Lines,
    err: Lines,
    /// Speech that comes in pieces, up to its last line break.
    begun: String,
}

impl Narrator {
    /// Of a program, from its first byte on.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self { program, out: Lines::default(), err: Lines::default(), begun: String::new() }
    }

    /// Goes on by one piece, and answers the lines that are whole now. What the agent was told is no line of it.
    pub fn hear(&mut self, heard: Heard<'_>) -> Vec<Said> {
        let mut said = vec![];
        let Self { program, out, err, begun } = self;
        let program = *program;
        match heard {
            Heard::Out(piece) => out.feed(piece, |line| printed(program, begun, &line, &mut said)),
            Heard::Err(piece) => err.feed(piece, |line| complained(&line, &mut said)),
            Heard::In(_) => {}
            Heard::Exited(_) => {
                out.rest(|line| printed(program, begun, &line, &mut said));
                err.rest(|line| complained(&line, &mut said));
                end_speech(begun, &mut said);
            }
        }
        said
    }
}

fn complained(line: &Line<'_>, said: &mut Vec<Said>) {
    if let Line::Whole(line) = line {
        add(Voice::Error, &String::from_utf8_lossy(line), said);
    }
}

fn printed(program: Program, begun: &mut String, line: &Line<'_>, said: &mut Vec<Said>) {
    let Line::Whole(line) = line else {
        return add(Voice::Error, "(a line that is too long to be shown)", said);
    };
    let plain = || String::from_utf8_lossy(line).into_owned();
    let event = match program {
        Program::Command => return add(Voice::Said, &plain(), said),
        Program::Claude
        | Program::Codex
        | Program::CodexExec
        | Program::Gemini
        | Program::Opencode
        | Program::Acp
        | Program::Script => serde_json::from_slice::<Value>(line).ok().filter(Value::is_object),
    };
    // What is no event was not printed by the protocol, but it was printed.
    let Some(event) = event else { return add(Voice::Said, &plain(), said) };
    if let Some(piece) = piece_of(program, &event) {
        return speak(begun, piece, said);
    }
    let before = said.len();
    match program {
        Program::Claude => claude(&event, said),
        Program::Codex => item(&event["params"]["item"], event["method"] == "item/completed", said),
        Program::CodexExec => item(&event["item"], event["type"] == "item.completed", said),
        Program::Gemini => gemini(&event, said),
        Program::Opencode => opencode(&event, said),
        Program::Acp => acp(&event["params"]["update"], said),
        Program::Script => script(&event, said),
        Program::Command => {}
    }
    // Whatever else it does ends what it was saying.
    if said.len() > before && !begun.is_empty() {
        let after = said.split_off(before);
        end_speech(begun, said);
        said.extend(after);
    }
}

/// Speech that is printed as it comes.
fn piece_of(program: Program, event: &Value) -> Option<&str> {
    match program {
        Program::Gemini => {
            let speaks = event["type"] == "message" && event["role"] == "assistant";
            event["content"].as_str().filter(|_| speaks)
        }
        Program::Acp => {
            let update = &event["params"]["update"];
            let speaks = update["sessionUpdate"] == "agent_message_chunk";
            update["content"]["text"].as_str().filter(|_| speaks)
        }
        Program::Command
        | Program::Claude
        | Program::Codex
        | Program::CodexExec
        | Program::Opencode
        | Program::Script => None,
    }
}

fn speak(begun: &mut String, piece: &str, said: &mut Vec<Said>) {
    begun.push_str(piece);
    while let Some((line, rest)) = begun.split_once('\n') {
        add(Voice::Said, line, said);
        *begun = rest.to_owned();
    }
    // A line that never ends is shown in parts.
    if begun.len() > super::LINE_BYTES_MAX {
        end_speech(begun, said);
    }
}

fn end_speech(begun: &mut String, said: &mut Vec<Said>) {
    let rest = std::mem::take(begun);
    add(Voice::Said, &rest, said);
}

fn claude(event: &Value, said: &mut Vec<Said>) {
    for part in fields::list(&event["message"]["content"]) {
        match part["type"].as_str() {
            Some("text") if event["type"] == "assistant" => add_text(&part["text"], said),
            Some("tool_use") => tool(&part["name"], &part["input"], said),
            Some("tool_result") => output(&part["content"], said),
            Some(_) | None => {}
        }
    }
    if event["type"] == "result" && event["is_error"] == true {
        add_error(&event["result"], said);
    }
}

/// A thing that Codex does, by either of its doors: it is told when it begins and when it ends.
fn item(item: &Value, over: bool, said: &mut Vec<Said>) {
    match (item["type"].as_str(), over) {
        (Some("agentMessage" | "agent_message"), true) => add_text(&item["text"], said),
        (Some("commandExecution" | "command_execution"), false) => {
            if let Some(command) = item["command"].as_str() {
                add(Voice::Tool, command, said);
            }
        }
        (Some("commandExecution"), true) => output(&item["aggregatedOutput"], said),
        (Some("command_execution"), true) => output(&item["aggregated_output"], said),
        (Some("fileChange" | "file_change"), true) => {
            for change in fields::list(&item["changes"]) {
                tool(&Value::from("edit"), &change["path"], said);
            }
        }
        (Some("mcpToolCall" | "mcp_tool_call"), false) => {
            tool(&item["tool"], &item["arguments"], said);
        }
        (Some("error"), true) => add_error(&item["message"], said),
        (Some(_) | None, _) => {}
    }
}

fn gemini(event: &Value, said: &mut Vec<Said>) {
    match event["type"].as_str() {
        Some("tool_use") => tool(&event["tool_name"], &event["parameters"], said),
        Some("tool_result") => output(&event["output"], said),
        Some("error") => add_error(&event["message"], said),
        Some(_) | None => {}
    }
}

fn opencode(event: &Value, said: &mut Vec<Said>) {
    let part = &event["part"];
    match event["type"].as_str() {
        Some("text") => add_text(&part["text"], said),
        Some("tool_use") => {
            tool(&part["tool"], &part["state"]["input"], said);
            output(&part["state"]["output"], said);
        }
        Some("error") => add_error(&event["error"]["data"]["message"], said),
        Some(_) | None => {}
    }
}

fn acp(update: &Value, said: &mut Vec<Said>) {
    let is_update = update["sessionUpdate"] == "tool_call_update";
    match update["status"].as_str().filter(|_| is_update) {
        Some("in_progress") => tool(&update["title"], &Value::Null, said),
        Some("completed" | "failed") => {
            for one in fields::list(&update["content"]) {
                output(&one["content"]["text"], said);
            }
        }
        Some(_) | None => {}
    }
}

fn script(event: &Value, said: &mut Vec<Said>) {
    match event["type"].as_str() {
        Some("said") => add_text(&event["text"], said),
        Some("tool_started") => tool(&event["name"], &Value::Null, said),
        Some("told") => tool(&Value::from("baton"), &event["what"], said),
        Some("ended") => add_error(&event["error"]["detail"], said),
        Some(_) | None => {}
    }
}

/// A tool with what it is used on: the command or the path, where there is one.
fn tool(name: &Value, input: &Value, said: &mut Vec<Said>) {
    let Some(name) = name.as_str() else { return };
    let told = ["command", "file_path", "path", "pattern", "url", "query", "prompt"];
    let on = match input {
        Value::Object(map) => told.iter().find_map(|name| map.get(*name)).and_then(Value::as_str),
        Value::String(text) => Some(text.as_str()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    let line = on.map_or_else(|| name.to_owned(), |on| format!("{name} {on}"));
    add(Voice::Tool, &line, said);
}

fn output(content: &Value, said: &mut Vec<Said>) {
    let parts = fields::list(content).filter_map(|part| part["text"].as_str());
    let text: Vec<_> = content.as_str().into_iter().chain(parts).collect();
    let text = text.join("\n");
    let lines: Vec<_> = text.trim_end().lines().collect();
    for line in lines.iter().take(OUTPUT_LINES_MAX) {
        add(Voice::Output, line, said);
    }
    if let Some(more) = lines.len().checked_sub(OUTPUT_LINES_MAX).filter(|more| *more > 0) {
        add(Voice::Output, &format!("… {more} more lines"), said);
    }
}

fn add_text(text: &Value, said: &mut Vec<Said>) {
    add(Voice::Said, text.as_str().unwrap_or_default(), said);
}

fn add_error(text: &Value, said: &mut Vec<Said>) {
    add(Voice::Error, text.as_str().unwrap_or_default(), said);
}

/// A text as lines, each cut where it is too long; blank ones say nothing.
fn add(voice: Voice, text: &str, said: &mut Vec<Said>) {
    let lines = text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
    said.extend(lines.map(|line| Said { voice, text: fields::clip(line) }));
}
