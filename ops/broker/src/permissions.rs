//! Permissions: the subjects that each user may publish and subscribe to, in the server's syntax.

use std::fmt::Write as _;

use bus_schemas::Tenant;
use bus_schemas::subject::Subjects;

use crate::credentials::{ACCOUNT, SYSTEM_ACCOUNT, tenant_name};
use crate::{Credentials, Result};

/// Subject patterns that one user may publish and subscribe to; all others are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects the user may publish to.
    pub publish: Vec<String>,
    /// Subjects the user may subscribe to.
    pub subscribe: Vec<String>,
}

impl Permissions {
    /// A tenant publishes under its `up` prefix and subscribes to its `dn` prefix, inboxes
    /// included.
    pub fn tenant(subjects: &Subjects, tenant: &Tenant) -> Permissions {
        Permissions {
            publish: vec![subjects.tenant_outbound(tenant)],
            subscribe: vec![subjects.tenant_inbound(tenant)],
        }
    }

    /// Leaders, workers and operators: the whole cluster, JetStream and KV, and the default inboxes
    /// for tools that use no others.
    pub fn cluster(subjects: &Subjects) -> Permissions {
        let allowed = vec![
            subjects.all(),
            "_INBOX.>".to_owned(),
            "$JS.>".to_owned(),
            "$KV.>".to_owned(),
            "$O.>".to_owned(),
        ];
        Permissions {
            publish: allowed.clone(),
            subscribe: allowed,
        }
    }

    fn render(&self) -> String {
        let list = |subjects: &[String]| {
            subjects
                .iter()
                .map(|subject| quote(subject))
                .collect::<Vec<_>>()
                .join(", ")
        };
        format!(
            "{{ publish: {{ allow: [{}] }}, subscribe: {{ allow: [{}] }} }}",
            list(&self.publish),
            list(&self.subscribe)
        )
    }
}

/// File in the folder of the users' file, which includes it if there are several servers.
pub(crate) const ACCOUNT_FILE: &str = "account.conf";

/// The accounts block: one account for cluster and tenants, and one for the system user, if any.
/// With `limited`, the limit on what several servers reserve is included from its own file.
pub(crate) fn render_accounts(credentials: &Credentials, limited: bool) -> Result<String> {
    let subjects = credentials.subjects()?;
    let mut text = String::from("# Written by warploom; edits are lost.\naccounts {\n");
    let jetstream = match limited {
        false => "jetstream: enabled".to_owned(),
        true => format!("jetstream {{ include {} }}", quote(ACCOUNT_FILE)),
    };
    let _ = writeln!(text, "  {ACCOUNT} {{\n    {jetstream}\n    users: [");
    let mut user = |user: &str, password: &str, permissions: Permissions| {
        let _ = writeln!(
            text,
            "      {{ user: {}, password: {}, permissions: {} }}",
            quote(user),
            quote(password),
            permissions.render()
        );
    };
    if let Some(login) = &credentials.cluster_user {
        user(
            &login.user,
            &login.password,
            Permissions::cluster(&subjects),
        );
    }
    for tenant in &credentials.tenants {
        let permissions = Permissions::tenant(&subjects, &tenant_name(&tenant.tenant)?);
        user(&tenant.login.user, &tenant.login.password, permissions);
    }
    text.push_str("    ]\n  }\n");
    if let Some(login) = &credentials.system_user {
        let (user, password) = (quote(&login.user), quote(&login.password));
        let _ = writeln!(
            text,
            "  {SYSTEM_ACCOUNT} {{\n    users: [ {{ user: {user}, password: {password} }} ]\n  }}"
        );
    }
    text.push_str("}\n");
    if credentials.system_user.is_some() {
        let _ = writeln!(text, "system_account: {SYSTEM_ACCOUNT}");
    }
    Ok(text)
}

/// A quoted string in the server's configuration syntax, so that no `$` is taken for a variable.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_cannot_leave_their_quotes() {
        assert_eq!(quote(r#"a"b\c$d"#), r#""a\"b\\c$d""#);
        assert_eq!(quote("a\nb"), r#""a\nb""#);
    }

    #[test]
    fn a_tenant_is_confined_to_its_prefix() {
        let subjects = Subjects::new(&tenant_name("c").unwrap());
        let permissions = Permissions::tenant(&subjects, &tenant_name("a").unwrap());
        assert_eq!(permissions.publish, ["wl.v1.c.t.a.up.>"]);
        assert_eq!(permissions.subscribe, ["wl.v1.c.t.a.dn.>"]);
    }
}
