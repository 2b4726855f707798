//! What a production host does not take, at its start or later.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use harness::yard::{Yard, guest, write_secret};
use railhost::builtin;
use railhost::rail::artifact::Digest;
use railhost::rail::definition::Definition;
use railhost::rail::{LoadOutcome, Reloaded, Rules};

const PRODUCTION: Rules = Rules { production: true };

/// As it would be with a real rail.
fn real(file: String) -> String {
    file.replace("http://", "https://").replace("reach = \"loopback\"", "reach = \"public\"")
}

#[tokio::test]
async fn a_running_production_host_does_not_take_a_mock() {
    let yard = Yard::new().await;
    let old = guest("pays_and_tells");
    yard.put_rail("one", &old, real);
    let (rails, mut told) = yard.load_rails(PRODUCTION).await.expect("it is as it should be");
    assert_eq!(told.try_recv().expect("the start is told").outcome, LoadOutcome::Loaded);

    let mock = "kind = \"mock\"\ncomponent = \"builtin:mock\"\nidempotent = true\nhand_over_marks = false\n";
    for name in ["one", "two"] {
        fs::write(yard.path(&format!("rails/{name}.toml")), mock).expect("written");
        let report = rails.reload(&yard.sandbox).await.expect("a report");
        let Reloaded::Refused(refused) = &report[name] else { panic!("{name}: {report:?}") };
        assert!(refused.to_string().contains("kind is mock, expected live: production is true"), "{refused}");
    }
    let event = told.try_recv().expect("it is told");
    assert_eq!((event.rail.as_str(), event.outcome), ("one", LoadOutcome::Refused));
    assert_eq!(event.file, Digest::of(mock.as_bytes()));
    assert!(event.detail.contains("kind is mock"), "{event:?}");
    assert_eq!(rails.get("one").expect("it goes on").current().digest, Digest::of(&old));
    assert!(rails.get("two").is_none());
    fs::remove_file(yard.path("rails/two.toml")).expect("removed");
    assert!(yard.load_rails(PRODUCTION).await.is_err(), "nor does one that starts");
    yard.load_rails(Rules::default()).await.expect("a host for development takes it");
}

#[tokio::test]
async fn what_is_good_for_development_only_is_recognised_by_what_it_is() {
    let yard = Yard::new().await;
    let sound = real(yard.file(&guest("pays_and_tells"), ""));
    let refusal = |text: &str| {
        let definition =
            Definition::parse("test", &yard.path(""), text).unwrap_or_else(|error| panic!("{error}"));
        definition.refused_in_production()
    };
    assert_eq!(refusal(&sound), None);

    let loopback = sound.replace("reach = \"public\"", "reach = \"loopback\"");
    assert!(refusal(&loopback).expect("a simulator").contains("network.reach is loopback"));
    let component = sound.lines().find(|line| line.contains("component = ")).expect("a line");
    let pin = sound.lines().find(|line| line.contains("sha256 = ")).expect("a line");
    let builtin = sound.replace(component, "component = \"builtin:mtn\"").replace(pin, "");
    assert!(refusal(&builtin).expect("not pinned").contains("component is built in"));

    // Under any name, with any line end.
    for (_, value) in builtin::SIMULATED {
        write_secret(&yard.path("user"), &format!("{}\r\n", value.trim_end().replace('\n', "\r\n")));
        let refused = refusal(&sound).unwrap_or_else(|| panic!("{value} is well known"));
        assert!(refused.contains("secrets.user is that of a simulator"), "{refused}");
    }
    write_secret(&yard.path("user"), "our own");
    assert_eq!(refusal(&sound), None);
}

#[tokio::test]
async fn a_secret_that_others_may_read_is_refused_in_production() {
    let yard = Yard::new().await;
    yard.put_rail("one", &guest("pays_and_tells"), real);
    let secret = yard.path("rails/password");
    let (rails, _) = yard.load_rails(PRODUCTION).await.expect("all are the owner's own");
    for mode in [0o644, 0o640, 0o602] {
        fs::write(&secret, format!("another {mode}")).expect("written");
        fs::set_permissions(&secret, fs::Permissions::from_mode(mode)).expect("changed");
        let report = rails.reload(&yard.sandbox).await.expect("a report");
        let Reloaded::Refused(refused) = &report["one"] else { panic!("{mode:o}: {report:?}") };
        let why = format!("open to group or others (mode {mode:04o}), expected mode 0600 or 0400");
        assert!(refused.to_string().contains("secrets.password is in"), "{refused}");
        assert!(refused.to_string().contains(&why), "{refused}");
    }
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o400)).expect("changed");
    let report = rails.reload(&yard.sandbox).await.expect("a report");
    assert!(matches!(report["one"], Reloaded::Swapped { .. }), "{report:?}");
}
