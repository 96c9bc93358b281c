//! What a worker and a server say to each other over `/v1/worker`: the frames, their bounds, and how
//! they are written. Nothing is read or sent here.
//!
//! A frame is one JSON object in one text message, and says in `frame` which one it is. Peers of
//! different ages understand each other by four rules: a field that nobody knows is ignored, what is
//! absent stays absent, a field of the wrong type is refused by its name, and what is new is optional.

use crate::json::Bounds;

mod codec;
mod document;
mod down;
mod examples;
mod frame;
mod parts;
mod up;
mod work;

pub use codec::{Unreadable, about, read, read_cleaned, write};
pub use document::document;
pub use down::{
    Ack, Answer, Bound, Cancel, Checkpointed, Dispatch, Down, Drain, Fenced, Listen, Renewed,
    Resume, Stands, Ticket, Trouble, Welcome,
};
pub use examples::{downs, ups};
pub use frame::Side;
pub use parts::{
    About, Alive, Arrived, Ask, Caps, Conversation, Deadlines, GateEnd, GateResult, Offered,
    Packet, Phase, Renewal, Secret, Standing, Turn, Verdict,
};
pub use up::{
    Bind, Bye, Checkpoint, Credit, Exited, Gates, Heartbeat, Hello, Lifecycle, Limit, Log, Lost,
    Merged, Permission, Probed, Question, Released, Stopped, Up, Usage,
};
pub use work::{BASE_BUNDLES_MAX, BUNDLES_MAX, LOG_KEPT_AS, Work};

pub use crate::views::{LOG_LINES_MAX, LogLine, LogVoice};

/// Which protocol this is. It changes only if an old peer could do harm.
pub const VERSION: u32 = 1;

/// Bytes of one message: a hand-off at its largest fits twice.
pub const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// Bytes of one frame of the socket; longer messages are sent in parts.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// Runs that one worker may hold at once: more than one machine has memory for.
pub const SLOTS_MAX: usize = 256;
/// Accounts that one worker may offer.
pub const ACCOUNTS_MAX: usize = 16;
/// Agents that one worker may offer.
pub const AGENTS_MAX: usize = 16;
/// Variables that a dispatch may set.
pub const VARIABLES_MAX: usize = 32;
/// Bytes of the text of a hand-off: every quoted line has a mark of its own.
pub const PACKET_TEXT_BYTES_MAX: usize = 160 << 10;

/// How deep, wide and long a frame may be.
pub const BOUNDS: Bounds = Bounds {
    depth_max: 32,
    // A key has at least five bytes with its value, so the message is the tighter bound.
    keys_max: MESSAGE_BYTES_MAX / 5,
    fields_max: 256,
    text_bytes_max: MESSAGE_BYTES_MAX,
    items_max: 4_096,
};

#[cfg(test)]
mod tests;
