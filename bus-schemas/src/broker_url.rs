//! The address of a broker, with a login that is never printed.

use std::fmt;

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize, Serializer};

/// Replacement for a login.
const HIDDEN: &str = "***";

/// Address of a broker; several URLs are separated by commas. It may contain a login, which only
/// [`Self::with_login`] reveals: `Display`, `Debug` and `Serialize` print stars instead.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct BrokerUrl(String);

impl BrokerUrl {
    /// Returns the text as given; only for connecting.
    #[must_use]
    pub fn with_login(&self) -> &str {
        &self.0
    }

    /// Returns the URLs of the servers as given; only for connecting.
    #[must_use]
    pub fn servers(&self) -> Vec<&str> {
        self.0.split(',').map(str::trim).collect()
    }

    /// Returns the URLs of the servers without a login, because the connecting library logs its
    /// URLs.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let address = |server: &str| parted(server).1;
        self.servers().into_iter().map(address).collect()
    }

    /// Returns the first login: user and password, or only a token.
    #[must_use]
    pub fn login(&self) -> Option<(String, Option<String>)> {
        let mut logins = self.servers().into_iter().map(parted);
        let login = logins.find_map(|(login, _)| login)?;
        Some(match login.split_once(':') {
            Some((user, password)) => (decoded(user), Some(decoded(password))),
            None => (decoded(&login), None),
        })
    }
}

/// Splits a server's URL after its scheme, if it has one.
fn scheme(server: &str) -> (&str, &str) {
    let at = server.find("://").map_or(0, |at| at + 3);
    server.split_at(at)
}

/// Returns a server's login, if its URL has one, and the URL without it.
fn parted(server: &str) -> (Option<String>, String) {
    let (scheme, rest) = scheme(server);
    match rest.rsplit_once('@') {
        Some((login, address)) => (Some(login.to_owned()), format!("{scheme}{address}")),
        None => (None, server.to_owned()),
    }
}

/// Decodes a part of a URL, in which `%2F` and the like stand for characters that would end it.
fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

impl From<String> for BrokerUrl {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for BrokerUrl {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<&String> for BrokerUrl {
    fn from(url: &String) -> Self {
        Self::from(url.as_str())
    }
}

impl From<&BrokerUrl> for BrokerUrl {
    fn from(url: &BrokerUrl) -> Self {
        url.clone()
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.servers();
        // A comma in a password has split a URL there.
        let cut = |server: &&str| server.contains('@') && !server.contains("://");
        if servers.iter().any(cut) {
            let behind = self.0.rsplit('@').next().unwrap_or_default();
            return write!(f, "{HIDDEN}@{behind}");
        }
        let shown: Vec<_> = servers.into_iter().map(shown).collect();
        f.write_str(&shown.join(","))
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Serialize for BrokerUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns one server's URL without its login.
fn shown(server: &str) -> String {
    let (scheme, rest) = scheme(server);
    if let Some((_, address)) = rest.rsplit_once('@') {
        return format!("{scheme}{HIDDEN}@{address}");
    }
    let port = rest.rsplit(']').next().unwrap_or(rest);
    let port = port.split_once(':').map_or("", |(_, port)| port);
    match port
        .trim_end_matches('/')
        .bytes()
        .all(|digit| digit.is_ascii_digit())
    {
        true => server.to_owned(),
        // Not an address: it may be a piece of a login.
        false => format!("{scheme}{HIDDEN}"),
    }
}

/// Removes the logins of URLs from a text by another author, such as a parser's error.
#[must_use]
pub fn without_logins(text: &str) -> String {
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, url)) = rest.split_once("://") {
        let end = url.find(|it: char| it.is_whitespace() || "\"'`".contains(it));
        let (url, behind) = url.split_at(end.unwrap_or(url.len()));
        clean += before;
        clean += "://";
        match url.rsplit_once('@') {
            Some((_, address)) => clean += &format!("{HIDDEN}@{address}"),
            None => clean += url,
        }
        rest = behind;
    }
    clean + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_never_shown() {
        for (given, shown) in [
            ("nats://u:secret@h:42", "nats://***@h:42"),
            ("nats://secret@h", "nats://***@h"),
            ("u:secret@h:42", "***@h:42"),
            (
                "nats://a:1, nats://u:secret@b:2",
                "nats://a:1,nats://***@b:2",
            ),
            ("nats://u:sec@ret@h", "nats://***@h"),
            ("nats://u:sec/ret@h", "nats://***@h"),
            ("nats://u:1,secret@h", "***@h"),
            ("nats://u:secret", "nats://***"),
            ("nats://127.0.0.1:42", "nats://127.0.0.1:42"),
            ("tls://[::1]:42/", "tls://[::1]:42/"),
            ("localhost", "localhost"),
            ("", ""),
        ] {
            let url = BrokerUrl::from(given);
            assert_eq!(url.to_string(), shown, "{given}");
            assert_eq!(format!("{url:?}"), format!("{shown:?}"));
            assert_eq!(url.with_login(), given);
            let written = rmp_serde::to_vec(&url).unwrap();
            assert_eq!(written, rmp_serde::to_vec(shown).unwrap());
        }
    }

    #[test]
    fn a_connection_gets_addresses_and_a_login() {
        let login = |user: &str, password: Option<&str>| {
            Some((user.to_owned(), password.map(str::to_owned)))
        };
        for (given, addresses, expected) in [
            (
                "nats://u:p@h:1, tls://v:q@i",
                "nats://h:1 tls://i",
                login("u", Some("p")),
            ),
            (
                "nats://a,nats://u:p%40%2f%@b",
                "nats://a nats://b",
                login("u", Some("p@/%")),
            ),
            ("token@h", "h", login("token", None)),
            ("nats://h:1", "nats://h:1", None),
        ] {
            let url = BrokerUrl::from(given);
            assert_eq!(url.addresses().join(" "), addresses);
            assert_eq!(url.login(), expected, "{given}");
        }
    }

    #[test]
    fn texts_of_others_lose_the_logins_in_them() {
        let text = "bad value 'nats://u:secret@h' (was \"nats://h\"): a@b";
        let clean = "bad value 'nats://***@h' (was \"nats://h\"): a@b";
        assert_eq!(without_logins(text), clean);
        assert_eq!(without_logins("://x:y@"), "://***@");
        assert_eq!(without_logins("nothing"), "nothing");
    }
}
