//! Channels by which nobody is told at present: said at the top of every page, for whoever relies on
//! being told does not look for it.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::Onlooker;
use crate::views::ChannelView;

#[derive(Deserialize)]
struct Items {
    items: Vec<ChannelView>,
}

/// A chip for every broken channel. Whoever may not see channels sees none.
pub async fn broken(onlooker: &Onlooker) -> Markup {
    let found = onlooker.ask::<Items>(("channel", "list"), json!({})).await;
    let channels = found.map_or_else(|_| vec![], |found| found.items);
    html! {
        @for channel in channels {
            @if let Some(why) = &channel.broken {
                span.chip.bad role="alert" title=(why) {
                    "Channel " b { (channel.name) } " is broken: " (why)
                }
            }
        }
    }
}
