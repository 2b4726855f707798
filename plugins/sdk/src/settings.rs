//! What the rail's file says under `[settings]`.

use crate::bindings::symphony::rail::settings;

pub fn get(name: &str) -> Option<String> {
    settings::get(name)
}

/// A setting that the adapter declared as required; the host does not load it without.
pub fn required(name: &str) -> String {
    get(name).unwrap_or_else(|| panic!("the setting {name} was declared as required"))
}
