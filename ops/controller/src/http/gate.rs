//! The gate for every request of the interface: it identifies the caller, limits its rate, and
//! checks its role.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use admin::calendar::now_ms;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use listener::Origin;
use telemetry::names_this_host;

use super::rules::{Need, Rules};
use crate::access::{Identity, Means, Scope, Secret};
use crate::cluster::{Cluster, Shared, full_of};
use crate::metrics::Counted;
use crate::problem::Problem;

/// The header that a browser's changes carry.
pub(crate) const CSRF: &str = "x-csrf-token";

/// The peer of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The gate.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) cluster: Shared,
    pub(crate) rules: Arc<Rules>,
}

/// Passes a request on, or answers with the reason for its refusal.
pub(crate) async fn gate(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str).to_owned();
    let Some(need) = gate.rules.need(request.method(), &path) else {
        return Problem::of_methods(&gate.rules.methods(&path));
    };
    let mut response = gate.answer(need, &path, request, next).await;
    response.extensions_mut().insert(Counted(need.name()));
    response
}

/// The parts of a request that the gate checks.
struct Asking {
    changes: bool,
    peer: String,
    secret: Option<(Secret, Means)>,
    csrf: Option<HeaderValue>,
}

impl Asking {
    fn of(request: &Request, secure: bool) -> Self {
        let method = request.method();
        let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
        Self {
            changes: !reads,
            peer: peer(request),
            secret: secret(request, secure),
            csrf: request.headers().get(CSRF).cloned(),
        }
    }
}

impl Gate {
    async fn answer(&self, need: Need, path: &str, mut request: Request, next: Next) -> Response {
        // Held until the answer exists.
        let mut underway = None;
        if need != Need::Nothing {
            let asking = Asking::of(&request, self.cluster.secure);
            match self.pass(asking, need).await {
                Ok(identity) => {
                    let (name, method) = (&identity.name, request.method());
                    tracing::info!(%name, %method, path, "request");
                    let all = &self.cluster.underway;
                    let share = match all.take(&identity.share()) {
                        Ok(share) => Arc::new(share),
                        Err(full) => {
                            return full_of(all, full, "requests at a time").into_response();
                        }
                    };
                    request.extensions_mut().insert(Arc::clone(&share));
                    underway = Some(share);
                    request.extensions_mut().insert(identity);
                }
                Err(problem) => return problem.into_response(),
            }
        }
        // A misspelt `dry_run` would make a change.
        if let Err(problem) = self.rules.queried(request.method(), path, request.uri()) {
            return problem.into_response();
        }
        let response = next.run(request).await;
        drop(underway);
        response
    }

    async fn pass(&self, asking: Asking, need: Need) -> Result<Identity, Problem> {
        let identity = identify(&self.cluster, &asking).await?;
        if asking.changes && identity.means == Means::Cookie {
            let sent = asking.csrf.as_ref();
            if sent.is_none_or(|sent| sent.as_bytes() != identity.csrf.as_bytes()) {
                let why = "a browser's change needs the header X-CSRF-Token with the word of GET \
                           /api/v1/me";
                return Err(Problem::forbidden(why));
            }
        }
        if let Need::Operation(operation) = need
            && identity.scope(operation) == Scope::None
        {
            let (role, name) = (identity.role.name(), operation.name());
            return Err(Problem::forbidden(format!(
                "a login of role {role} may not do {name}: an operator, or a token that may, can"
            )));
        }
        Ok(identity)
    }
}

/// Identifies the caller.
async fn identify(cluster: &Cluster, asking: &Asking) -> Result<Identity, Problem> {
    let (peer, now) = (&asking.peer, now_ms());
    let Some((secret, means)) = &asking.secret else {
        cluster.strangers.take(peer, now).map_err(Problem::rate)?;
        return Err(Problem::login());
    };
    let digest = secret.digest();
    let known = cluster.identities.get(&digest, now);
    if let Some(known) = known.filter(|known| known.means == *means) {
        let counted = cluster.requests.take(&secret.id, now);
        counted.map_err(Problem::rate)?;
        return Ok(known);
    }
    // A client that guesses is slowed down, and not other clients of its address. The number of
    // concurrent lookups at the broker is bounded.
    let looked_up = async {
        let _place = cluster.lookups.acquire().await;
        cluster.access.identity(secret, *means).await
    };
    let Some(identity) = looked_up.await? else {
        cluster.strangers.take(peer, now).map_err(Problem::rate)?;
        return Err(Problem::login());
    };
    cluster.identities.put(digest, identity.clone(), now);
    Ok(identity)
}

/// The peer's address, as used to tell unknown callers apart. A network of IPv6 counts as one, and
/// so does this host. Empty if the connection has no peer.
pub(crate) fn peer(request: &Request) -> String {
    let peer = request.extensions().get::<Peer>();
    peer.map_or_else(String::new, |peer| Origin::from(peer.0).to_string())
}

/// The secret of a request, and the credential that carries it.
pub(crate) fn secret(request: &Request, secure: bool) -> Option<(Secret, Means)> {
    let headers = request.headers();
    if let Some(token) = headers.get(header::AUTHORIZATION) {
        let (scheme, word) = token.to_str().ok()?.split_once(' ')?;
        let bearer = scheme.eq_ignore_ascii_case("bearer");
        return Some((bearer.then(|| Secret::read(word.trim()))??, Means::Token));
    }
    let name = cookie_name(headers, request.uri(), secure);
    let cookies = headers.get_all(header::COOKIE).into_iter();
    let cookies = cookies.filter_map(|line| line.to_str().ok());
    let mut pairs = cookies.flat_map(|line| line.split(';'));
    let word = pairs.find_map(|pair| {
        let (key, word) = pair.trim().split_once('=')?;
        (key == name).then_some(word)
    });
    Some((Secret::read(word?)?, Means::Cookie))
}

/// The cookie's name. A browser sends cookies of a host to all of its ports, so each port has its
/// own name.
pub(crate) fn cookie_name(headers: &HeaderMap, uri: &Uri, secure: bool) -> String {
    if secure {
        return "__Host-wl".into();
    }
    let host = headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).or(uri.host());
    let port = host.and_then(|host| host.rsplit_once(':'));
    let port = port.and_then(|(_, port)| port.parse::<u16>().ok());
    format!("wl-{}", port.unwrap_or(80))
}

/// Adds the headers common to all answers, and refuses requests for names other than this host's.
pub(crate) async fn guard(State(cluster): State<Shared>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let other = if request.uri().path() == "/mcp" {
        "mcp"
    } else {
        "page"
    };
    let host = request.headers().get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok());
    let several = request.headers().get_all(header::HOST).iter().count() > 1;
    let local = !several && (cluster.secure || host.is_some_and(names_this_host));
    let mut response = match local {
        true => next.run(request).await,
        false if several => Problem::malformed("there is more than one header Host").into_response(),
        false => Problem::malformed(
            "the header Host names no address of this host: without controller.tls_cert the controller \
             answers to localhost and loopback addresses only",
        )
        .into_response(),
    };
    let counted = response.extensions().get::<Counted>();
    let operation = counted.map_or(other, |counted| counted.0);
    let controller = cluster.telemetry.meters().controller();
    controller.answered(operation, response.status().as_u16(), began.elapsed());
    let headers = response.headers_mut();
    let fixed = [
        ("content-security-policy", CONTENT),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    if cluster.secure {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(header::STRICT_TRANSPORT_SECURITY, year);
    }
    response
}

/// The content policy of pages: they load only from this origin.
const CONTENT: &str =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(name: &str, value: &str) -> Request {
        let request = Request::builder().header(name, value);
        let request = request.header("host", "localhost:7070");
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_stranger_who_has_many_addresses_is_counted_once() {
        let of = |address: &str| {
            let mut request = request("x-other", "x");
            let address = address.parse().unwrap();
            request.extensions_mut().insert(Peer(address));
            peer(&request)
        };
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2::2"));
        assert_eq!(of("127.0.0.1"), of("127.0.0.2"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn a_secret_comes_as_a_token_or_as_this_ports_cookie() {
        let own = Secret::random().unwrap();
        let shown = own.shown();
        let of = |name: &str, value: String| secret(&request(name, &value), false);
        let token = of("authorization", format!("Bearer {shown}"));
        assert_eq!(token, Some((own.clone(), Means::Token)));
        let cookie = of("cookie", format!("a=b; wl-7070={shown}; c=d"));
        assert_eq!(cookie, Some((own.clone(), Means::Cookie)));
        for (name, value) in [
            ("cookie", format!("wl-7071={shown}")),
            ("cookie", format!("__Host-wl={shown}")),
            ("authorization", format!("Basic {shown}")),
            ("authorization", shown.clone()),
            ("x-other", shown.clone()),
        ] {
            assert_eq!(of(name, value.clone()), None, "{name}: {value}");
        }
        let secure = secret(&request("cookie", &format!("__Host-wl={shown}")), true);
        assert_eq!(secure, Some((own, Means::Cookie)));
    }
}
