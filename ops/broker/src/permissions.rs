//! Permissions: what each user may publish and subscribe, as it is written for the server.

use std::fmt::Write as _;

use bus_schemas::Tenant;
use bus_schemas::subject::Subjects;

use crate::credentials::{ACCOUNT, SYSTEM_ACCOUNT, tenant_name};
use crate::{Credentials, Result};

/// What one user may publish and subscribe: subject patterns; everything else is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects the user may publish to.
    pub publish: Vec<String>,
    /// Subjects the user may subscribe to.
    pub subscribe: Vec<String>,
}

impl Permissions {
    /// A tenant speaks under its `up` prefix and hears its `dn` prefix, inboxes included.
    pub fn tenant(subjects: &Subjects, tenant: &Tenant) -> Permissions {
        Permissions {
            publish: vec![subjects.tenant_outbound(tenant)],
            subscribe: vec![subjects.tenant_inbound(tenant)],
        }
    }

    /// Leaders, workers and operators: the whole cluster, JetStream and KV, and the default
    /// inboxes for tools that know no other.
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

/// Beside the users' file, which includes it where there are several servers.
pub(crate) const ACCOUNT_FILE: &str = "account.conf";

/// The accounts block: one account for cluster and tenants, one for the system user if any. A limit
/// for what several servers promise together is in a file of its own.
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

/// A string in the server's configuration syntax. Quoted, so that no `$` is taken for a variable.
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
