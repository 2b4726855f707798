//! Lines for the operator. The host adds rail, payment and digest.

pub use crate::bindings::symphony::rail::log::Level;

pub fn write(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    crate::bindings::symphony::rail::log::write(level, message, &fields);
}

pub fn debug(message: &str, fields: &[(&str, &str)]) {
    write(Level::Debug, message, fields);
}

pub fn info(message: &str, fields: &[(&str, &str)]) {
    write(Level::Info, message, fields);
}

pub fn warn(message: &str, fields: &[(&str, &str)]) {
    write(Level::Warn, message, fields);
}
