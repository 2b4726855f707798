//! Where this binary runs adapters, as its configuration says.

use std::path::Path;

use rail::{LoadError, Sandbox, SandboxOptions, compile};

use crate::config::Config;

/// Components are compiled by a process of this same program.
pub(super) fn sandbox(config: &Config) -> Result<Sandbox, LoadError> {
    let options = SandboxOptions { calls_max: config.adapters.calls_max, ..SandboxOptions::default() };
    Sandbox::new(&config.adapters.cache, Path::new(compile::OWN_PROGRAM), options)
}

/// For one call at a time.
pub(super) fn small_sandbox(config: &Config) -> Result<Sandbox, LoadError> {
    let options = SandboxOptions { calls_max: 1, ..SandboxOptions::default() };
    Sandbox::new(&config.adapters.cache, Path::new(compile::OWN_PROGRAM), options)
}
