//! Components that no toolchain makes: the contract's own world with something wrong in it.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve};

const TYPES: &str = include_str!("../../wit/1.0.0/types.wit");
const HOST: &str = include_str!("../../wit/1.0.0/host.wit");
const ADAPTER: &str = include_str!("../../wit/1.0.0/adapter.wit");

/// A component that imports and exports what the contract says, after `wit` has changed the contract and `wat` the code. All
/// its functions trap.
pub fn component(wit: impl Fn(&str) -> String, wat: impl Fn(String) -> String) -> Vec<u8> {
    let text = wit(&[TYPES, &without_package(HOST), &without_package(ADAPTER)].concat());
    let mut resolve = Resolve::default();
    let package = resolve.push_str(Path::new("rail.wit"), &text).expect("sound WIT");
    let world = resolve.select_world(&[package], None).expect("one world");
    let dummy = dummy_module(&resolve, world, ManglingAndAbi::Legacy(LiftLowerAbi::Sync));
    let text = wat(wasmprinter::print_bytes(&dummy).expect("printable"));
    let mut module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).expect("embedded");
    ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .expect("a module")
        .encode()
        .expect("a component")
}

fn without_package(text: &str) -> String {
    text.replace("package symphony:rail@1.0.0;", "")
}

pub fn as_it_is(text: &str) -> String {
    text.to_owned()
}

/// With more code before the end of the module.
pub fn with(text: String, more: &str) -> String {
    let end = text.rfind(')').expect("a module ends");
    format!("{}\n{more}\n)", &text[..end])
}
