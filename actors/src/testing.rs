//! Connections of unit tests to a real nats-server.

use bus_schemas::subject::Subjects;
use test_cluster::TestBroker;

/// Returns a connection with the rights of the cluster's own roles.
pub(crate) async fn connect(broker: &TestBroker, subjects: &Subjects) -> async_nats::Client {
    let login = broker.credentials().cluster_user.clone().expect("a login");
    async_nats::ConnectOptions::with_user_and_password(login.user, login.password)
        .custom_inbox_prefix(subjects.cluster_inbox())
        .connect(broker.url())
        .await
        .expect("it connects")
}
