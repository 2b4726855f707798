//! Components that no toolchain makes: the contract's own world with something wrong in it.

use std::path::Path;

use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{LiftLowerAbi, ManglingAndAbi, Resolve};

const ADAPTER: &str = include_str!("../../wit/1.0.0/adapter.wit");

/// A component that exports what the contract says, after `wit` has changed the contract and `wat` the code. All its functions
/// trap.
pub fn component(wit: impl Fn(&str) -> String, wat: impl Fn(String) -> String) -> Vec<u8> {
    let text = wit(ADAPTER);
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

pub fn as_it_is(text: &str) -> String {
    text.to_owned()
}

/// With more code before the end of the module.
pub fn with(text: String, more: &str) -> String {
    let end = text.rfind(')').expect("a module ends");
    format!("{}\n{more}\n)", &text[..end])
}

/// Thousands of variables that live across thousands of nested loops: small to write down, endless to compile.
pub fn nested_loops() -> Vec<u8> {
    let (variables, loops) = (8_000, 2_000);
    let each: String =
        (0..variables).map(|n| format!("local.get {n} i32.const 1 i32.add local.set {n} ")).collect();
    let function = format!(
        "(func (local {}) {} {each} {})",
        "i32 ".repeat(variables),
        "loop ".repeat(loops),
        "local.get 0 br_if 0 end ".repeat(loops)
    );
    component(as_it_is, |wat| with(wat, &function))
}

/// Half a million functions that do nothing.
pub fn empty_functions() -> Vec<u8> {
    component(as_it_is, |wat| with(wat, &"(func)".repeat(500_000)))
}

/// Data of 24 MiB.
pub fn huge_data() -> Vec<u8> {
    component(as_it_is, |wat| with(wat, &format!("(data \"{}\")", "a".repeat(24 << 20))))
}
