//! What the guide tells people to write by hand is what `init` writes.

use serde_json::Value;

use super::super::pieces::{Form, Member};
use super::super::{AGENTS, pieces};

const GUIDE: &str = include_str!("../../../../../docs/guides/mcp.md");

/// The blocks of the guide, in order.
fn blocks() -> Vec<&'static str> {
    let parts = GUIDE.split("\n```").skip(1).step_by(2);
    parts.map(|part| part.split_once('\n').map_or("", |(_, block)| block)).collect()
}

fn has(block: &str, member: &Member) -> bool {
    let Ok(file) = serde_json::from_str::<Value>(block) else { return false };
    let inner = member.path.iter().fold(&file, |value, name| &value[*name]);
    member.key.is_some_and(|key| inner[key] == member.value)
}

#[test]
fn what_the_guide_says_by_hand_is_what_init_writes() {
    let blocks = blocks();
    for agent in AGENTS {
        let mut tools = 0;
        for piece in
            pieces("shop", &[agent], false).iter().filter(|piece| piece.path != "baton.toml")
        {
            match &piece.form {
                Form::Hash(text) => {
                    assert!(blocks.contains(&text.trim_end()), "{agent:?}: {text}");
                    tools += 1;
                }
                Form::Members(members) => {
                    for member in members.iter().filter(|member| member.key.is_some()) {
                        let there = blocks.iter().any(|block| has(block, member));
                        assert!(there, "{agent:?}: {}", member.value);
                        tools += 1;
                    }
                }
                Form::Whole(_) | Form::Html(_) => {}
            }
        }
        assert_eq!(tools, 1, "{agent:?}");
    }
}
