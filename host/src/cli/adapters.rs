//! Where this binary runs adapters, as its configuration says.

use std::path::Path;

use rail::{LoadError, Options, Sandbox, compile};

use crate::config::Config;

/// Components are compiled by a process of this same program.
pub(super) fn sandbox(config: &Config) -> Result<Sandbox, LoadError> {
    let options = Options { calls_max: config.adapters.calls_max, ..Options::default() };
    Sandbox::new(&config.adapters.cache, Path::new(compile::OWN_PROGRAM), options)
}

/// For one call at a time.
pub(super) fn small_sandbox(config: &Config) -> Result<Sandbox, LoadError> {
    let options = Options { calls_max: 1, ..Options::default() };
    Sandbox::new(&config.adapters.cache, Path::new(compile::OWN_PROGRAM), options)
}
