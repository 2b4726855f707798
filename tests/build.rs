//! Builds the guests: small components for the tests of the sandbox.

#[path = "../plugins/components.rs"]
mod components;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in ["guests", "../wit", "../plugins/Cargo.lock", "../plugins/sdk"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let built = components::build("../plugins", &["--package", "guests", "--examples"])?;
    println!("cargo::rustc-env=GUESTS={}", built.join("examples").display());
    Ok(())
}
