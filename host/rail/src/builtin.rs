//! Adapters that are part of the host: built by the build script from `plugins/`.

/// The component of a rail file's `builtin:NAME`.
pub fn component(name: &str) -> Option<&'static [u8]> {
    COMPONENTS.iter().find(|(known, _)| *known == name).map(|(_, bytes)| *bytes)
}

pub fn names() -> Vec<&'static str> {
    COMPONENTS.iter().map(|(name, _)| *name).collect()
}

const COMPONENTS: [(&str, &[u8]); 5] = [
    ("airtel", include_bytes!(concat!(env!("OUT_DIR"), "/airtel.wasm"))),
    ("bank", include_bytes!(concat!(env!("OUT_DIR"), "/bank.wasm"))),
    ("mock", include_bytes!(concat!(env!("OUT_DIR"), "/mock.wasm"))),
    ("mtn", include_bytes!(concat!(env!("OUT_DIR"), "/mtn.wasm"))),
    ("template", include_bytes!(concat!(env!("OUT_DIR"), "/template.wasm"))),
];
