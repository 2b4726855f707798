//! The binary `railhost`: one screen that reads the arguments, runs one command and answers with an exit code.

mod cli;
mod config;
mod https;
mod telemetry;
mod version;

use std::process::ExitCode;

use clap::Parser;
use rail::compile;
use telemetry::Telemetry;

/// A payment is a few dozen small allocations made on one thread and freed on another, which the system's allocator does slowly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A process of its own, with limits of its own, before anything else is set up in it.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == compile::COMMAND) {
        return compile::child();
    }
    let arguments = match cli::arguments::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(problem) => return cli::exit::usage(&problem),
    };
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(error) => cli::exit::failed(&error.into()),
    }
}

async fn run(arguments: cli::arguments::Arguments) -> ExitCode {
    let telemetry = match Telemetry::start(arguments.log_format, arguments.log_default()) {
        Ok(telemetry) => telemetry,
        Err(error) => return cli::exit::failed(&error),
    };
    let code = match cli::run(arguments).await {
        Ok(code) => code,
        Err(error) => cli::exit::failed(&error),
    };
    telemetry.end();
    code
}
