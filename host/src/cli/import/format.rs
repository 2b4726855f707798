//! How a file of payments is written.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli) enum Format {
    /// A header and a payment a line, RFC 4180.
    Csv,
    /// A JSON object a line.
    #[value(alias = "ndjson")]
    Jsonl,
}
