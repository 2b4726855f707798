//! Components that are not taken in, each for its own reason, before any of their code has run.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use harness::adapter_rig::{AdapterRig, guest};
use harness::{forged, railhost_path};
use payment::is_unsafe;
use rail::artifact::{Outline, Pair};
use rail::definition::Definition;
use rail::{LoadError, Sandbox, SandboxOptions};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use verdict::digest::Digest;

async fn refusal(bytes: &[u8]) -> LoadError {
    AdapterRig::new().await.load_bytes(bytes).await.expect_err("it must be refused")
}

#[tokio::test]
async fn a_component_that_imports_more_than_it_is_granted_is_refused_by_name() {
    let component = forged::component(
        |wit| wit.replace("export adapter;", "import files: interface { open: func(); }\n  export adapter;"),
        |wat| wat,
    );
    let refused = refusal(&component).await;
    assert!(matches!(&refused, LoadError::ForbiddenImport(name) if name == "files"), "{refused}");
}

#[tokio::test]
async fn another_version_of_the_contract_is_refused_by_name() {
    let component = forged::component(|wit| wit.replace("rail@1.0.0", "rail@2.3.0"), |wat| wat);
    let refused = refusal(&component).await;
    assert!(matches!(&refused, LoadError::WrongContract { found, .. } if found == "2.3.0"), "{refused}");
}

#[tokio::test]
async fn a_component_without_an_adapter_is_refused() {
    let component = forged::component(|wit| wit.replace("export adapter;", ""), |wat| wat);
    assert!(matches!(refusal(&component).await, LoadError::NoAdapter));
}

#[tokio::test]
async fn a_component_whose_functions_have_other_types_is_refused() {
    let component = forged::component(
        |wit| wit.replace("describe: func() -> description", "describe: func() -> string"),
        |wat| wat,
    );
    let refused = refusal(&component).await;
    assert!(matches!(refused, LoadError::Mismatch(_)), "{refused}");
}

#[tokio::test]
async fn a_core_module_is_refused_with_a_hint() {
    let module = wat::parse_str("(module (func (export \"disburse\")))").expect("a module");
    let refused = refusal(&module).await;
    assert!(refused.to_string().contains("wasm32-wasip2"), "{refused}");
}

#[tokio::test]
async fn a_truncated_file_is_refused() {
    let whole = guest("pays_and_tells");
    for part in [whole.len() / 2, whole.len() - 1, 20, 4, 0] {
        let refused = refusal(&whole[..part]).await;
        assert!(matches!(refused, LoadError::Malformed(_)), "{part} bytes: {refused}");
    }
    assert!(matches!(refusal(b"#!/bin/sh\necho hello").await, LoadError::Malformed(_)));
}

#[tokio::test]
async fn a_digest_that_is_not_the_pinned_one_is_refused() {
    let rig = AdapterRig::new().await;
    let file = rig.file(&guest("pays_and_tells"), "");
    let other = Digest::of(b"something else").to_string();
    let pinned = Digest::of(&guest("pays_and_tells")).to_string();
    let file = file.replace(&format!("sha256 = \"{pinned}\""), &format!("sha256 = \"{other}\""));
    let refused = rig.load_file(&file).await.expect_err("it is another component");
    assert!(matches!(&refused, LoadError::WrongDigest { found, .. } if *found == pinned), "{refused}");
}

#[tokio::test]
async fn a_signature_has_to_be_by_a_trusted_key_for_this_component_and_this_file() {
    let rig = AdapterRig::new().await;
    let component = guest("pays_and_tells");
    let (trusted, stranger) =
        (Ed25519KeyPair::generate().expect("a key"), Ed25519KeyPair::generate().expect("a key"));
    let key = hex::encode(trusted.public_key().as_ref());
    let file = rig.file(&component, &format!("signature = {{ file = \"sig\", trusted = [\"{key}\"] }}"));
    let sign = |key: &Ed25519KeyPair, component: &[u8], file: &str| {
        let pair = Pair { component: Digest::of(component), file: Digest::of(file.as_bytes()) };
        hex::encode(key.sign(&pair.signed_text()).as_ref())
    };

    fs::write(rig.path("sig"), sign(&trusted, &component, &file)).expect("written");
    rig.load_file(&file).await.expect("signed as it should be");
    for wrong in [
        sign(&stranger, &component, &file),
        sign(&trusted, b"another", &file),
        sign(&trusted, &component, &format!("{file}\n")),
        "no signature".to_owned(),
    ] {
        fs::write(rig.path("sig"), wrong).expect("written");
        let refused = rig.load_file(&file).await.expect_err("it is not signed");
        assert!(matches!(refused, LoadError::WrongSignature { .. }), "{refused}");
    }
    fs::remove_file(rig.path("sig")).expect("removed");
    assert!(matches!(rig.load_file(&file).await, Err(LoadError::Unreadable { .. })));
}

#[tokio::test]
async fn a_warm_cache_compiles_nothing_and_a_spoilt_file_is_compiled_again() {
    let rig = AdapterRig::new().await;
    let file = rig.file(&guest("pays_and_tells"), "");
    assert!(!rig.load_file(&file).await.expect("it loads").was_warm);
    assert!(rig.load_file(&file).await.expect("it loads").was_warm);
    let compiled = fs::read_dir(rig.path("compiled"))
        .expect("the cache")
        .next()
        .expect("a file")
        .expect("a file")
        .path();
    let bytes = fs::read(&compiled).expect("read");
    fs::write(&compiled, &bytes[..bytes.len() / 2]).expect("written");
    assert!(!rig.load_file(&file).await.expect("it loads").was_warm);
}

#[tokio::test]
async fn a_cache_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("changed");
    let refused = Sandbox::new(folder.path(), railhost_path(), SandboxOptions::default())
        .expect_err("anybody could put code there");
    assert!(
        refused.to_string().contains("must be a folder owned by this user that nobody else can write to"),
        "{refused}"
    );
}

#[test]
fn a_rails_file_with_a_mistake_is_refused_with_key_and_expectation() {
    let sound = "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n";
    let with = |more: &str| Definition::parse("mock", "".as_ref(), &format!("{sound}{more}"));
    with("").expect("it is sound");
    for (more, problem) in [
        ("call_ms = 5", "line 5: unknown field `call_ms`"),
        ("sha256 = \"ab\"", "is part of the host"),
        ("limits = { memory_mib = 0 }", "limits.memory_mib is 0, expected 1 to 512"),
        ("timeouts = { call_ms = 1 }", "timeouts.call_ms is 1, expected 10 to 300000"),
        ("secrets = { a = \"plain\" }", "a secret does not stand in a rail file"),
        (
            "tokens = { a = { step = \"pay\", value = \"/a\", lifetime = \"/b\" } }",
            "tokens.a.step is \"pay\", expected a step of class session",
        ),
        ("keys = { k = { algorithm = \"md5\", key = { env = \"K\" } } }", "unknown variant `md5`"),
        (
            "disburse = { steps = [\"a\"] }\n[steps.a]\nclass = \"money\"\nrequest = \"POST {base}/a\"",
            "a mock has no network",
        ),
    ] {
        let refused = with(more).expect_err(more);
        assert!(refused.contains(problem), "{more}\n{refused}");
    }
    let unpinned = "kind = \"mock\"\ncomponent = \"a.wasm\"\nidempotent = true\nhand_over_marks = false\n";
    assert!(
        Definition::parse("a", "".as_ref(), unpinned).expect_err("no digest").contains("sha256 is missing")
    );
    let careless =
        "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = false\nhand_over_marks = false\n";
    assert!(
        Definition::parse("a", "".as_ref(), careless)
            .expect_err("no marks")
            .contains("hand_over_marks is false")
    );
}

#[tokio::test]
async fn what_an_adapter_needs_must_be_in_its_rails_file() {
    let rig = AdapterRig::new().await;
    // It takes nothing for granted but its base, which it asks for when it is called.
    let file = rig
        .file(&guest("pays_and_tells"), "")
        .replace("api-key = { file = \"api-key\" }", "api-key = { file = \"gone\" }");
    let refused = rig.load_file(&file).await.expect_err("the secret cannot be read");
    assert!(refused.to_string().contains("secrets.api-key refers to"), "{refused}");
}

#[tokio::test]
async fn what_is_not_a_regular_file_is_refused_by_name_and_not_opened() {
    let rig = AdapterRig::new().await;
    mknodat(CWD, rig.path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    let component = guest("pays_and_tells");
    let file = rig.file(&component, "");
    let named = format!("component = \"{}.wasm\"", Digest::of(&component));
    let https = file.replace("http://", "https://");
    let with_ca = |ca: &str| https.replace("[network]", &format!("[network]\nca = \"{ca}\""));
    for (file, why) in [
        (file.replace(&named, "component = \"fifo\""), "fifo: cannot be read: it is a FIFO"),
        (file.replace(&named, "component = \"compiled\""), "it is a folder, expected a regular file"),
        (file.replace(&named, "component = \"/dev/zero\""), "it is a device"),
        (file.replace("file = \"api-key\"", "file = \"fifo\""), "secrets.api-key refers to"),
        (file.replace("file = \"api-key\"", "file = \"fifo\""), "it is a FIFO, expected a regular file"),
        (with_ca("fifo"), "network.ca"),
        (with_ca("/dev/zero"), "it is a device, expected a regular file"),
    ] {
        let refused = rig.load_file(&file).await.expect_err(why).to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let refused = Definition::load(&rig.path("fifo")).expect_err("not a rail file").to_string();
    assert!(refused.contains("it is a FIFO"), "{refused}");
}

#[test]
fn names_of_a_component_are_shown_without_what_a_terminal_obeys() {
    let text = r#"(component
        (import "a\u{1b}[2J" (func $f))
        (export "symphony:rail/adapter@\u{1b}]0;title\u{7}\u{202e}" (func $f)))"#;
    let outline = Outline::read(&wat::parse_str(text).expect("a component")).expect("it can be read");
    assert_eq!(outline.imports, ["a\u{fffd}[2J"]);
    let refused = outline.check(rail::definition::Profile::Strict).expect_err("another contract");
    assert!(refused.to_string().contains("title") && !refused.to_string().contains(is_unsafe), "{refused}");
}

#[test]
fn a_component_with_more_names_than_anybody_needs_is_refused_before_they_are_all_read() {
    let imports: String = (0..1_001).map(|n| format!("(import \"f{n}\" (func))")).collect();
    let component = wat::parse_str(format!("(component {imports})")).expect("a component");
    let refused = Outline::read(&component).expect_err("too many").to_string();
    assert!(refused.contains("more than 1000 imports or exports"), "{refused}");
}
