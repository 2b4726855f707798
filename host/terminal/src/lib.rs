//! How a command answers: [`mod@print`] has text for people and JSON for scripts, [`exit`] the exit codes, [`refusal`] why a
//! command was not done.
//!
//! ```
//! use terminal::print::{json_text, table};
//!
//! let rows = [vec!["mtn".to_owned(), "7".to_owned()], vec!["bank\u{7}".to_owned(), "12".to_owned()]];
//! let text = table(&["rail", "pending"], &rows);
//! assert_eq!(text, "rail   pending\nmtn          7\nbank\u{fffd}       12\n", "no cell rings the bell");
//! assert_eq!(json_text(&"\u{9b}2J")?, r#""\u009b2J""#, "JSON means the same and shows nothing unsafe");
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod exit;
pub mod print;
mod refusal;

pub use refusal::{BadArgument, Missing, Refused};
