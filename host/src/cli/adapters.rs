//! Where this binary runs adapters, as its configuration says.

use std::path::Path;

use railhost::rail::{LoadError, Options, Sandbox, compile};

use crate::config::Config;

/// Components are compiled by a process of this same program.
pub(super) fn sandbox(config: &Config) -> Result<Sandbox, LoadError> {
    let options = Options { calls_max: config.adapters.calls_max, ..Options::default() };
    Sandbox::new(&config.adapters.cache, Path::new(compile::OWN_PROGRAM), options)
}
