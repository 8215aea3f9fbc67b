use serde_json::json;

use super::*;

#[test]
fn every_field_has_a_row_that_gives_and_takes_its_value() {
    let usual = TenantSettings::default();
    assert_eq!(destructured(usual.clone()), TENANT_SETTINGS.len());
    check(&usual).unwrap();
    // The wire leaves out what is as usual, so each field is made unusual.
    let mut changed = usual.clone();
    for setting in TENANT_SETTINGS {
        let value: Value = match setting.kind {
            SettingKind::Groups => vec!["batch", "spare"].into(),
            SettingKind::Switch | SettingKind::State => {
                (!setting.get(&usual).as_bool().unwrap()).into()
            }
            SettingKind::Bytes => (3_u64 << 30).into(),
            _ => 3.into(),
        };
        setting.set(&mut changed, &value).unwrap();
        assert_eq!(setting.get(&changed), value, "{}", setting.field);
    }
    let (wire, before) = (
        serde_json::to_value(&changed).unwrap(),
        serde_json::to_value(&usual).unwrap(),
    );
    for setting in TENANT_SETTINGS {
        let field = setting.field;
        assert_ne!(wire.get(field), before.get(field), "{field}");
    }
}

#[test]
fn options_are_read_in_their_notation() {
    let limits = TenantSettings::default().limits(&bus_schemas::ClusterSettings::default());
    for (option, text, value, shown) in [
        ("priority", "0", json!(0), "0"),
        ("quota", "4GiB", json!(4_u64 << 30), "4.0 GiB"),
        ("quota", "0", json!(0), "none"),
        ("outstanding", "7", json!(7 * kind::MS), "7 ms"),
        ("cap", "40", json!(40), "40 %"),
        ("slo", "20ms", json!(20_000_000), "20 ms"),
        ("slo", "none", json!(0), "none"),
        ("swap", "off", json!(false), "off"),
        ("sessions", "0", json!(0), "1024"),
        ("group", "batch", json!(["batch"]), "batch"),
    ] {
        let setting = TENANT_SETTINGS.iter().find(|it| it.option == option);
        let setting = setting.unwrap();
        let read = setting.parse(text).unwrap();
        assert_eq!(read, value, "{option} {text}");
        let mut settings = TenantSettings::default();
        setting.set(&mut settings, &read).unwrap();
        assert_eq!(setting.show(&settings, &limits), shown, "{option} {text}");
    }
}

#[test]
fn a_refusal_says_the_accepted_values() {
    let option = |name: &str| TENANT_SETTINGS.iter().find(|it| it.option == name).unwrap();
    for (name, text, says) in [
        ("priority", "5", "from 0 to 4"),
        ("weight", "0", "from 1 to 1000"),
        ("cap", "101", "0 to 100"),
        ("quota", "4Gb", "4GiB"),
        ("outstanding", "2ms", "milliseconds"),
        ("slo", "20", "20ms"),
        ("swap", "yes", "on or off"),
        ("group", "No Name", "name of a group"),
        ("group", "", "name of a group"),
        ("group", "a,b", "name of a group"),
        ("sessions", "4294967296", "4294967295"),
    ] {
        let error = option(name).parse(text).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let wide = TenantSettings {
        weight: 2_000,
        ..TenantSettings::default()
    };
    let error = check(&wide).unwrap_err();
    assert!(error.is::<UsageError>(), "{error}");
    let error = error.to_string();
    assert!(error.contains("weight 2000"), "{error}");
    let mut settings = TenantSettings::default();
    let many: Vec<_> = (0..=bus_schemas::limits::GROUPS)
        .map(|at| format!("g{at}"))
        .collect();
    for (name, value, says) in [
        ("cap", json!("much"), "cap \"much\" is not a percentage"),
        ("quota", json!("4GiB"), "a number of bytes"),
        ("outstanding", json!(-1), "a number of nanoseconds"),
        ("swap", json!("off"), "true or false"),
        ("group", json!(many), "at most 64 names"),
    ] {
        let error = option(name).set(&mut settings, &value).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
