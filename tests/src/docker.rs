use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use testcontainers::core::{ContainerPort, WaitFor};
use testcontainers::runners::AsyncRunner;
use testcontainers::{GenericImage, ImageExt, ReuseDirective};

use crate::Pg;

const PASSWORD: &str = "only-for-tests";
const START_MAX: Duration = Duration::from_secs(120);

/// The same version as a container, if a Docker daemon answers; `None` sends the caller to its next choice.
pub(crate) async fn start(pg: Pg) -> Option<PgConnectOptions> {
    let image = GenericImage::new("postgres", &pg.major().to_string())
        .with_exposed_port(ContainerPort::Tcp(5432))
        .with_wait_for(WaitFor::message_on_stderr("database system is ready to accept connections"))
        .with_env_var("POSTGRES_PASSWORD", PASSWORD)
        .with_container_name(format!("railhost-tests-postgres-{}", pg.major()))
        .with_reuse(ReuseDirective::Always);
    let started = tokio::time::timeout(START_MAX, image.start()).await;
    let container = match started {
        Ok(Ok(container)) => container,
        Ok(Err(error)) => {
            eprintln!("no PostgreSQL {} through Docker ({error}); looking for binaries", pg.major());
            return None;
        }
        Err(_) => {
            eprintln!(
                "Docker took more than {} s for PostgreSQL {}; looking for binaries",
                START_MAX.as_secs(),
                pg.major()
            );
            return None;
        }
    };
    let port = container.get_host_port_ipv4(5432).await.ok()?;
    let host = container.get_host().await.ok()?.to_string();
    // One container per version, left running and used again by the next run.
    std::mem::forget(container);
    Some(
        PgConnectOptions::new()
            .host(&host)
            .port(port)
            .username("postgres")
            .password(PASSWORD)
            .database("postgres"),
    )
}
