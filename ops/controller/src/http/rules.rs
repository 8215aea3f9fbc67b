//! What each request needs, read from the interface's own document: there is no second list. What the
//! document does not say may nobody do.

use std::collections::HashMap;

use axum::http::Method;
use serde_json::Value;

use crate::access::Operation;

/// The word in the document that names an operation.
pub(crate) const NAME: &str = "x-operation";

/// What a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing: it tells nothing of the cluster.
    Nothing,
    /// A login, whatever its role.
    Login,
    /// A role that may do it.
    Operation(Operation),
}

impl Need {
    /// Its word in the document.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "public",
            Self::Login => "login",
            Self::Operation(operation) => operation.name(),
        }
    }
}

/// By method and path, as the router writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules(HashMap<(Method, String), Need>);

impl Rules {
    /// Reads them from the document.
    pub(crate) fn of(document: &Value) -> Self {
        let mut rules = HashMap::new();
        let paths = document["paths"].as_object();
        for (path, methods) in paths.into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let need = match operation[NAME].as_str() {
                    Some("public") => Some(Need::Nothing),
                    Some("login") => Some(Need::Login),
                    Some(name) => {
                        let named = Operation::ALL.iter().find(|it| it.name() == name);
                        named.copied().map(Need::Operation)
                    }
                    None => None,
                };
                let method = Method::from_bytes(method.to_uppercase().as_bytes());
                if let (Ok(method), Some(need)) = (method, need) {
                    rules.insert((method, path.clone()), need);
                }
            }
        }
        Self(rules)
    }

    /// The methods that a path has.
    pub(crate) fn methods(&self, path: &str) -> String {
        let methods = self.0.keys().filter(|(_, known)| known == path);
        let mut methods: Vec<_> = methods.map(|(method, _)| method.as_str()).collect();
        methods.sort_unstable();
        methods.join(", ")
    }

    /// What a request needs; none where nobody may do it.
    pub(crate) fn need(&self, method: &Method, path: &str) -> Option<Need> {
        // The answer to HEAD is that to GET without its body.
        let method = match *method {
            Method::HEAD => Method::GET,
            _ => method.clone(),
        };
        self.0.get(&(method, path.to_owned())).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_document_does_not_say_may_nobody_do() {
        let document = serde_json::json!({"paths": {
            "/a": {"get": {"x-operation": "tenants.read"}, "post": {"x-operation": "no.such"}},
            "/b": {"get": {"x-operation": "public"}, "put": {"x-operation": "login"}, "delete": {}},
        }});
        let rules = Rules::of(&document);
        let tenants = Some(Need::Operation(Operation::TenantsRead));
        assert_eq!(rules.need(&Method::GET, "/a"), tenants);
        assert_eq!(rules.need(&Method::HEAD, "/a"), tenants);
        assert_eq!(rules.need(&Method::POST, "/a"), None);
        assert_eq!(rules.need(&Method::GET, "/b"), Some(Need::Nothing));
        assert_eq!(rules.need(&Method::PUT, "/b"), Some(Need::Login));
        assert_eq!(rules.need(&Method::DELETE, "/b"), None);
        assert_eq!(rules.methods("/b"), "GET, PUT");
    }
}
