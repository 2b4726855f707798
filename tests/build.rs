//! Builds the guests: small components for the tests of the sandbox.

#[path = "../plugins/components.rs"]
mod components;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in ["guests", "../plugins/habits", "../wit", "../plugins/Cargo.lock", "../plugins/sdk"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let built = components::build(
        "../plugins",
        &["--package", "guests", "--package", "rail-habits", "--lib", "--examples"],
    )?;
    println!("cargo::rustc-env=GUESTS={}", built.join("examples").display());
    println!("cargo::rustc-env=HABITS={}", built.join("rail_habits.wasm").display());
    Ok(())
}
