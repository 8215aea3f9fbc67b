//! The attributes of a process that its environment sets: `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`, as
//! OpenTelemetry specifies them.
//!
//! The SDK's detectors decode no percent signs and keep parts of a malformed variable. With them the first variable
//! wins over the second.

use percent_encoding::percent_decode_str;

/// The attribute that names a service.
const SERVICE_NAME: &str = "service.name";
/// Attributes that the environment cannot change. One that ends with a dot stands for all that begin with it.
const FIXED: [&str; 3] = ["warploom.cluster", "process.pid", "telemetry.sdk."];
/// Attributes of one process, or of the place where it runs. The spans of another role do not have them.
const OF_ONE: [&str; 8] = [
    SERVICE_NAME,
    "service.version",
    "service.instance.id",
    "host.",
    "os.",
    "process.",
    "container.",
    "k8s.",
];

/// Attributes of a process that its environment sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourceSettings {
    /// Each name occurs once.
    given: Vec<(String, String)>,
    /// The reason for which `OTEL_RESOURCE_ATTRIBUTES` is discarded.
    discarded: Option<String>,
}

impl ResourceSettings {
    /// Reads the values of `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`; an empty one is unset. An error in the
    /// first discards it as a whole.
    #[must_use]
    pub fn new(attributes: &str, service: &str) -> Self {
        let (mut given, discarded) = match pairs(attributes) {
            Ok(pairs) => (pairs, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        given.retain(|(key, value)| {
            let is_unnamed = key == SERVICE_NAME && (value.is_empty() || !service.is_empty());
            !is_unnamed && !is_among(key, &FIXED)
        });
        if !service.is_empty() {
            given.push((SERVICE_NAME.to_owned(), service.to_owned()));
        }
        Self { given, discarded }
    }

    /// Returns the attributes of the process itself.
    pub(crate) fn own(&self) -> impl Iterator<Item = (&str, &str)> {
        let given = self.given.iter();
        given.map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Returns those of them that are true of other processes of the cluster too, with the namespace for those that
    /// run `in_namespace` of this one.
    pub(crate) fn of_others(&self, in_namespace: bool) -> impl Iterator<Item = (&str, &str)> {
        self.own().filter(move |(key, _)| match key {
            key if key.starts_with("k8s.cluster.") => true,
            key if key.starts_with("k8s.namespace.") => in_namespace,
            key => !is_among(key, &OF_ONE),
        })
    }

    /// Returns the reason for which `OTEL_RESOURCE_ATTRIBUTES` is discarded, if it is.
    pub(crate) fn discarded(&self) -> Option<&str> {
        self.discarded.as_deref()
    }
}

/// True if a list has an attribute by its name or by the beginning of its name.
fn is_among(key: &str, names: &[&str]) -> bool {
    let mut names = names.iter();
    names.any(|name| key == *name || (name.ends_with('.') && key.starts_with(*name)))
}

/// Reads `key=value,key=value`, with percent-encoded keys and values. Of a key that occurs twice the last value stays.
fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let Some((key, value)) = part.split_once('=') else {
            return Err(format!("{part:?} is not key=value"));
        };
        let (key, value) = (decoded(key)?, decoded(value)?);
        if key.is_empty() {
            return Err(format!("{part:?} has no key"));
        }
        found.retain(|(other, _)| *other != key);
        found.push((key, value));
    }
    Ok(found)
}

fn decoded(text: &str) -> Result<String, String> {
    let text = text.trim();
    let is_encoded = |after: &str| {
        let digits = after.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.split('%').skip(1).all(is_encoded) {
        return Err(format!("{text:?} has a % without two hexadecimal digits"));
    }
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(format!("{text:?} is not UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(attributes: &str, service: &str) -> Vec<(String, String)> {
        let settings = ResourceSettings::new(attributes, service);
        let own = settings.own();
        own.map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    fn pair(key: &str, value: &str) -> (String, String) {
        (key.to_owned(), value.to_owned())
    }

    #[test]
    fn keys_and_values_are_percent_decoded_and_the_last_of_a_key_stays() {
        let given = " a = x , k%2Cy=a%3Db%20c%C3%A9,base64=SGk=,a=z,,empty=,";
        let expected = [
            pair("k,y", "a=b cé"),
            pair("base64", "SGk="),
            pair("a", "z"),
            pair("empty", ""),
        ];
        assert_eq!(own(given, ""), expected);
        assert_eq!(own("", ""), []);
    }

    #[test]
    fn an_error_discards_all_attributes_and_not_the_name() {
        for wrong in [
            "a=b,c", "a=b,=c", "a=100%", "a=%4", "a=%zz", "a=%ff", "a=%é1",
        ] {
            let settings = ResourceSettings::new(wrong, "mine");
            assert!(settings.discarded().is_some(), "{wrong}");
            assert_eq!(own(wrong, "mine"), [pair("service.name", "mine")]);
        }
        assert_eq!(ResourceSettings::new("a=b", "").discarded(), None);
    }

    #[test]
    fn the_name_of_the_service_wins_over_the_attribute_and_what_must_stay_true_stays() {
        let given = "service.name=one,warploom.cluster=x,process.pid=1,telemetry.sdk.name=x";
        assert_eq!(own(given, ""), [pair("service.name", "one")]);
        assert_eq!(own(given, "two"), [pair("service.name", "two")]);
        assert_eq!(own("service.name=", ""), []);
        assert_eq!(own("process.pids=1", ""), [pair("process.pids", "1")]);
    }

    #[test]
    fn another_process_has_no_attribute_of_this_one_or_of_its_place() {
        let given = "service.version=1,host.name=h,k8s.pod.name=p,k8s.node.name=n,k8s.namespace.name=gpu,\
                     k8s.cluster.name=c,service.namespace=s,team=t";
        let settings = ResourceSettings::new(given, "mine");
        let of_others = |in_namespace| {
            let found = settings.of_others(in_namespace);
            found.map(|(key, _)| key).collect::<Vec<_>>()
        };
        let everywhere = ["k8s.cluster.name", "service.namespace", "team"];
        assert_eq!(of_others(false), everywhere);
        assert_eq!(of_others(true)[0], "k8s.namespace.name");
        assert_eq!(of_others(true)[1..], everywhere);
        assert_eq!(settings.own().count(), 9);
    }
}
