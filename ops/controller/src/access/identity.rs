//! The identity of a caller, and its permissions.

use bus_schemas::Tenant;

use super::operation::{Operation, Scope};
use super::role::Role;

/// Credential by which a caller is identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Means {
    /// A token, which a program sends with each request.
    Token,
    /// A cookie, which a browser sends by itself. A change also needs the CSRF word.
    Cookie,
}

/// The identity of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The id of the token or login.
    pub(crate) id: String,
    /// Its name.
    pub(crate) name: String,
    /// The role.
    pub(crate) role: Role,
    /// The tenant of a tenant-admin.
    pub(crate) tenant: Option<Tenant>,
    /// Operations to which a token is narrowed.
    pub(crate) operations: Option<Vec<Operation>>,
    /// Expiry, milliseconds since 1970.
    pub(crate) expires_ms: u64,
    /// Credential by which the caller was identified.
    pub(crate) means: Means,
    /// The CSRF word that must accompany changes made with a cookie.
    pub(crate) csrf: String,
}

impl Identity {
    /// Scope in which the caller may do an operation.
    pub(crate) fn scope(&self, operation: Operation) -> Scope {
        let narrowed = self.operations.as_ref();
        if narrowed.is_some_and(|operations| !operations.contains(&operation)) {
            return Scope::None;
        }
        match (operation.scope(self.role), &self.tenant) {
            // A caller without a tenant owns nothing.
            (Scope::Own, None) => Scope::None,
            // Even if the table says all, a tenant-admin acts only on its own tenant, except to
            // read the cluster.
            (Scope::All, Some(_)) if self.role == Role::TenantAdmin => match operation {
                Operation::ClusterRead => Scope::All,
                _ => Scope::Own,
            },
            (scope, _) => scope,
        }
    }

    /// True if an operation that the role allows may reveal this tenant to the caller.
    pub(crate) fn sees(&self, tenant: &Tenant) -> bool {
        match self.role {
            Role::TenantAdmin => self.tenant.as_ref() == Some(tenant),
            Role::Viewer | Role::Operator | Role::Auditor => true,
        }
    }

    /// True if the caller may see every tenant.
    pub(crate) fn sees_all(&self) -> bool {
        match self.role {
            Role::TenantAdmin => false,
            Role::Viewer | Role::Operator | Role::Auditor => true,
        }
    }

    /// Name under which bounded resources are counted. All tokens of one tenant share one name.
    pub(crate) fn share(&self) -> String {
        match (self.role, &self.tenant) {
            (Role::TenantAdmin, Some(tenant)) => format!("tenant {tenant}"),
            _ => self.id.clone(),
        }
    }

    /// The operations that the caller may do, in any scope.
    pub(crate) fn operations(&self) -> Vec<Operation> {
        let all = Operation::ALL.iter().copied();
        all.filter(|operation| self.scope(*operation) != Scope::None)
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An identity of a role.
    pub(crate) fn identity(role: Role, tenant: Option<&str>) -> Identity {
        Identity {
            id: "0".into(),
            name: "x".into(),
            role,
            tenant: tenant.map(|name| name.parse().unwrap()),
            operations: None,
            expires_ms: 0,
            means: Means::Token,
            csrf: String::new(),
        }
    }

    /// Repeats the table as sets: a change of one requires a change of the other.
    #[test]
    fn each_role_may_do_just_this() {
        let names = |role, tenant, scope| {
            let who = identity(role, tenant);
            let all = Operation::ALL.iter().filter(|it| who.scope(**it) == scope);
            all.map(|it| it.name()).collect::<Vec<_>>().join(" ")
        };
        let reads = "cluster.read tenants.read workers.read sessions.read profiles.read settings.read usage.read order.read events.read";
        assert_eq!(names(Role::Viewer, None, Scope::All), reads);
        assert_eq!(names(Role::Viewer, None, Scope::Own), "");
        let audits = "cluster.read tenants.read workers.read sessions.read profiles.read settings.read usage.read order.read order.verify order.export events.read tokens.read";
        assert_eq!(names(Role::Auditor, None, Scope::All), audits);
        let own = "tenants.read tenants.login sessions.read sessions.end usage.read order.read events.read";
        assert_eq!(names(Role::TenantAdmin, Some("chat"), Scope::Own), own);
        assert_eq!(
            names(Role::TenantAdmin, Some("chat"), Scope::All),
            "cluster.read"
        );
        assert_eq!(names(Role::Operator, None, Scope::None), "");
        assert_eq!(names(Role::Operator, None, Scope::Own), "");
    }

    #[test]
    fn a_tenant_admin_knows_of_no_other_tenant_and_without_one_of_none() {
        let (own, other) = ("chat".parse().unwrap(), "train".parse().unwrap());
        let admin = identity(Role::TenantAdmin, Some("chat"));
        assert!(admin.sees(&own) && !admin.sees(&other));
        let nobody = identity(Role::TenantAdmin, None);
        assert!(!nobody.sees(&own));
        let may: Vec<_> = nobody.operations();
        assert_eq!(may, [Operation::ClusterRead]);
    }

    #[test]
    fn a_token_that_is_narrowed_may_no_more_than_its_role() {
        for role in Role::ALL {
            for operation in Operation::ALL {
                let mut who = identity(role, Some("chat"));
                let before = who.scope(*operation);
                who.operations = Some(vec![*operation]);
                assert_eq!(who.scope(*operation), before);
                let others = Operation::ALL.iter().filter(|other| *other != operation);
                assert!(
                    others
                        .into_iter()
                        .all(|other| who.scope(*other) == Scope::None)
                );
            }
        }
    }
}
