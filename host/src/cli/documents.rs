//! What shells and `man` want to know of this program.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

use terminal::print::{say, write_out};

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// Shell to write the script for.
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, mut command: Command) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "railhost", &mut script);
        write_out(&script)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// Write a page for each command into this folder, instead of the first page to standard output.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(self, command: Command) -> anyhow::Result<ExitCode> {
        let Some(folder) = self.folder else {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            write_out(&page)?;
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        clap_mangen::generate_to(command, &folder)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        say(&format!("The pages are in {}.", folder.display()));
        Ok(ExitCode::SUCCESS)
    }
}
