//! What a production host does not take, at its start or later.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use harness::adapter_rig::{AdapterRig, guest, write_secret};
use rail::artifact::Pair;
use rail::definition::Definition;
use rail::{LoadOutcome, Reloaded, Rules};
use verdict::digest::Digest;

const PRODUCTION: Rules = Rules { production: true, recorded: false, examine: None };

/// As it would be with a real rail, to be signed with this key.
fn real(file: String) -> String {
    let public = hex::encode(key().public_key().as_ref());
    let signature = format!("signature = {{ file = \"sig\", trusted = [\"{public}\"] }}");
    file.replace("http://", "https://")
        .replace("reach = \"loopback\"", "reach = \"public\"")
        .replace("hand_over_marks = false", &format!("hand_over_marks = false\n{signature}"))
}

fn key() -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a key")
}

/// Signs the rail `one` as it stands.
fn sign(rig: &AdapterRig, component: &[u8]) {
    let file = Digest::of(&fs::read(rig.path("rails/one.toml")).expect("read"));
    let pair = Pair { component: Digest::of(component), file };
    fs::write(rig.path("rails/sig"), hex::encode(key().sign(&pair.signed_text()).as_ref())).expect("written");
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("changed");
}

/// Whatever the umask of whoever runs the tests: all files of a folder are their owner's alone.
fn close(folder: &Path) {
    for entry in fs::read_dir(folder).expect("the folder").flatten() {
        if entry.file_type().expect("a type").is_file() {
            set_mode(&entry.path(), 0o600);
        }
    }
}

/// A rail as a careful operator would set it up.
fn put_real(rig: &AdapterRig, component: &[u8]) {
    rig.put_rail("one", component, real);
    sign(rig, component);
    close(&rig.path("rails"));
}

#[tokio::test]
async fn a_running_production_host_does_not_take_a_mock() {
    let rig = AdapterRig::new().await;
    let old = guest("pays_and_tells");
    put_real(&rig, &old);
    let (rails, mut told) = rig.load_rails(PRODUCTION).await.expect("it is as it should be");
    assert_eq!(told.try_recv().expect("the start is told").outcome, LoadOutcome::Loaded);

    let mock = "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n";
    for name in ["one", "two"] {
        fs::write(rig.path(&format!("rails/{name}.toml")), mock).expect("written");
        let report = rails.reload(&rig.sandbox).await.expect("a report");
        let Reloaded::Refused(refused) = &report[name] else { panic!("{name}: {report:?}") };
        assert!(refused.to_string().contains("kind is mock, expected live: production is true"), "{refused}");
    }
    let event = told.try_recv().expect("it is told");
    assert_eq!((event.rail.as_str(), event.outcome), ("one", LoadOutcome::Refused));
    assert_eq!(event.file, Digest::of(mock.as_bytes()));
    assert!(event.detail.contains("kind is mock"), "{event:?}");
    assert_eq!(rails.get("one").expect("it goes on").current().digest, Digest::of(&old));
    assert!(rails.get("two").is_none());
    fs::remove_file(rig.path("rails/two.toml")).expect("removed");
    assert!(rig.load_rails(PRODUCTION).await.is_err(), "nor does one that starts");
    rig.load_rails(Rules::default()).await.expect("a host for development takes it");
}

#[tokio::test]
async fn what_is_good_for_development_only_is_recognised_by_what_it_is() {
    let rig = AdapterRig::new().await;
    let sound = real(rig.file(&guest("pays_and_tells"), ""));
    close(&rig.path(""));
    let refusal = |text: &str| {
        let definition =
            Definition::parse("test", &rig.path(""), text).unwrap_or_else(|error| panic!("{error}"));
        definition.refused_in_production()
    };
    assert_eq!(refusal(&sound), None);

    let signature = sound.lines().find(|line| line.contains("signature = ")).expect("a line");
    let unsigned = sound.replace(signature, "");
    assert!(refusal(&unsigned).expect("nobody approved it").contains("signature is missing"));
    let loopback = sound.replace("reach = \"public\"", "reach = \"loopback\"");
    assert!(refusal(&loopback).expect("a simulator").contains("network.reach is loopback"));
    let component = sound.lines().find(|line| line.contains("component = ")).expect("a line");
    let pin = sound.lines().find(|line| line.contains("sha256 = ")).expect("a line");
    let builtin = sound.replace(component, "component = \"builtin:mtn\"").replace(pin, "");
    assert!(refusal(&builtin).expect("not pinned").contains("component is built in"));

    // Under any name, with any line end.
    for (_, value) in dev::rail_files::SIMULATED {
        write_secret(&rig.path("user"), &format!("{}\r\n", value.trim_end().replace('\n', "\r\n")));
        let refused = refusal(&sound).unwrap_or_else(|| panic!("{value} is well known"));
        assert!(refused.contains("secrets.user is the simulator's published secret"), "{refused}");
    }
    write_secret(&rig.path("user"), "our own");
    assert_eq!(refusal(&sound), None);
}

#[tokio::test]
async fn a_secret_that_others_may_read_is_refused_in_production() {
    let rig = AdapterRig::new().await;
    put_real(&rig, &guest("pays_and_tells"));
    let secret = rig.path("rails/password");
    let (rails, _) = rig.load_rails(PRODUCTION).await.expect("all are the owner's own");
    for mode in [0o644, 0o640, 0o602] {
        fs::write(&secret, format!("another {mode}")).expect("written");
        set_mode(&secret, mode);
        let report = rails.reload(&rig.sandbox).await.expect("a report");
        let Reloaded::Refused(refused) = &report["one"] else { panic!("{mode:o}: {report:?}") };
        let why = format!("open to group or others (mode {mode:04o}), expected mode 0600 or 0400");
        assert!(refused.to_string().contains("secrets.password is in"), "{refused}");
        assert!(refused.to_string().contains(&why), "{refused}");
    }
    set_mode(&secret, 0o400);
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Swapped { .. }), "{report:?}");
}

#[tokio::test]
async fn what_others_may_write_decides_nothing_in_production() {
    let rig = AdapterRig::new().await;
    let component = guest("pays_and_tells");
    let more = "ca = \"ca.pem\"\nclient = { certificate = \"client.pem\", key = { file = \"client.key\" } }";
    rig.put_rail("one", &component, |text| {
        real(text).replace("reach = \"public\"", &format!("reach = \"public\"\n{more}"))
    });
    let path = |name: &str| rig.path("rails").join(name);
    for name in ["sig", "ca.pem", "client.pem", "client.key"] {
        fs::write(path(name), "a text").expect("written");
    }
    close(&rig.path("rails"));
    let refusal = || Definition::load(&path("one.toml")).expect("a sound file").refused_in_production();
    assert_eq!(refusal(), None);
    let wasm = format!("{}.wasm", Digest::of(&component));
    for (name, key) in [
        ("one.toml", "the rail"),
        (wasm.as_str(), "component"),
        ("sig", "signature.file"),
        ("ca.pem", "network.ca"),
        ("client.pem", "network.client.certificate"),
    ] {
        for mode in [0o620, 0o602, 0o666] {
            set_mode(&path(name), mode);
            let refused = refusal().unwrap_or_else(|| panic!("{name} of mode {mode:o} is taken"));
            let why = format!("which may be written by group or others (mode {mode:04o})");
            assert!(refused.starts_with(&format!("{key} is in ")) && refused.contains(&why), "{refused}");
        }
        set_mode(&path(name), 0o644);
        assert_eq!(refusal(), None, "everybody may read {name}");
    }
}

#[tokio::test]
async fn a_running_production_host_takes_no_rail_file_that_others_may_write() {
    let rig = AdapterRig::new().await;
    let component = guest("pays_and_tells");
    put_real(&rig, &component);
    let (rails, _) = rig.load_rails(PRODUCTION).await.expect("all are the owner's own");
    rig.put_rail("one", &component, |text| real(text) + "\n# a stranger was here");
    sign(&rig, &component);
    close(&rig.path("rails"));
    set_mode(&rig.path("rails/one.toml"), 0o666);
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    let Reloaded::Refused(refused) = &report["one"] else { panic!("{report:?}") };
    assert!(refused.to_string().contains("the rail is in"), "{refused}");
    // The content stays as it is: who may write it is reason enough to look again.
    close(&rig.path("rails"));
    let report = rails.reload(&rig.sandbox).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Swapped { .. }), "{report:?}");
}
