//! The permissions that each request needs, read from the interface's own document, so that there
//! is no second list. A request that the document lacks is refused.

use std::collections::HashMap;

use axum::extract::Query;
use axum::http::{Method, Uri};
use serde_json::Value;

use crate::access::Operation;
use crate::problem::Problem;

/// The key in the document that names an operation.
pub(crate) const NAME: &str = "x-operation";

/// Permission that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// None: the answer reveals nothing of the cluster.
    Nothing,
    /// A login of any role.
    Login,
    /// A role that may do the operation.
    Operation(Operation),
}

impl Need {
    /// Its name in the document.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "public",
            Self::Login => "login",
            Self::Operation(operation) => operation.name(),
        }
    }
}

/// The document's rule for an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    need: Need,
    /// The allowed names in the query.
    queries: Vec<String>,
}

/// Rules by method and path, in the router's notation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rules(HashMap<(Method, String), Rule>);

impl Rules {
    /// Reads the rules from the document.
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
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let queries = parameters.filter(|it| it["in"] == "query");
                let queries = queries.filter_map(|it| it["name"].as_str().map(str::to_owned));
                if let (Ok(method), Some(need)) = (method, need) {
                    let queries = queries.collect();
                    rules.insert((method, path.clone()), Rule { need, queries });
                }
            }
        }
        Self(rules)
    }

    /// The methods of a path.
    pub(crate) fn methods(&self, path: &str) -> String {
        let methods = self.0.keys().filter(|(_, known)| known == path);
        let mut methods: Vec<_> = methods.map(|(method, _)| method.as_str()).collect();
        methods.sort_unstable();
        methods.join(", ")
    }

    fn rule(&self, method: &Method, path: &str) -> Option<&Rule> {
        // The answer to HEAD is the answer to GET without its body.
        let method = match *method {
            Method::HEAD => Method::GET,
            _ => method.clone(),
        };
        self.0.get(&(method, path.to_owned()))
    }

    /// Permission that a request needs; `None` if no caller may send it.
    pub(crate) fn need(&self, method: &Method, path: &str) -> Option<Need> {
        self.rule(method, path).map(|rule| rule.need)
    }

    /// Checks that the document has all names of a request's query.
    ///
    /// # Errors
    /// If it lacks one.
    pub(crate) fn queried(&self, method: &Method, path: &str, uri: &Uri) -> Result<(), Problem> {
        let known = self.rule(method, path).map_or(&[][..], |it| &it.queries);
        let asked = Query::<Vec<(String, String)>>::try_from_uri(uri);
        let Query(asked) = asked.map_err(|error| Problem::malformed(format!("query: {error}")))?;
        let unknown = asked.into_iter().find(|(name, _)| !known.contains(name));
        let Some((unknown, _)) = unknown else {
            return Ok(());
        };
        let unknown: String = unknown.chars().take(64).collect();
        let known = match known {
            [] => "none".into(),
            known => known.join(", "),
        };
        Err(Problem::malformed(format!(
            "query: there is no parameter {unknown:?} here; there are: {known}"
        )))
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

    #[test]
    fn a_query_has_the_names_that_the_document_has() {
        let document = serde_json::json!({"paths": {
            "/a": {"get": {"x-operation": "public", "parameters": [
                {"in": "query", "name": "dry_run"}, {"in": "query", "name": "limit"},
                {"in": "path", "name": "tenant"}]}},
            "/b": {"get": {"x-operation": "public"}},
        }});
        let rules = Rules::of(&document);
        let asked = |path: &str, query: &str| {
            let uri = format!("{path}{query}").parse().unwrap();
            rules.queried(&Method::HEAD, path, &uri).is_ok()
        };
        assert!(asked("/a", "") && asked("/a", "?") && asked("/b", ""));
        assert!(asked("/a", "?dry_run=true&limit=3") && asked("/a", "?dry%5Frun=1"));
        for wrong in ["?dry-run=true", "?limit=3&tenant=a", "?=", "?x"] {
            assert!(!asked("/a", wrong), "{wrong}");
        }
        assert!(!asked("/b", "?limit=3"));
    }
}
