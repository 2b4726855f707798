//! The binary `railhost`: one screen that reads the arguments, runs one command and answers with an exit code.

mod cli;
mod config;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match cli::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(problem) => return cli::exit::usage(&problem),
    };
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_env("RAILHOST_LOG")
                .unwrap_or_else(|_| EnvFilter::new(arguments.log_default())),
        )
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr)
        .init();
    match cli::run(arguments).await {
        Ok(code) => code,
        Err(error) => cli::exit::failed(&error),
    }
}
