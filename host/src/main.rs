//! The binary `railhost`: one screen that reads the arguments, runs one command and answers with an exit code.

mod cli;
mod config;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;
use telemetry::Telemetry;

/// A payment is a few dozen small allocations made on one thread and freed on another, which the system's allocator does slowly.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = match cli::Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(problem) => return cli::exit::usage(&problem),
    };
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
