use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::Connection;

use super::bed::{BenchServer, SETTINGS};
use super::rival::Rival;

/// Where and on what the figures were measured.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    began_at: DateTime<Utc>,
    /// What was typed.
    command: String,
    quick: bool,
    railhost: String,
    development_build: bool,
    processor: String,
    cores: usize,
    memory: String,
    kernel: String,
    load_average: String,
    postgres: String,
    /// As the server itself tells them.
    settings: Vec<(String, String)>,
    rivals: Vec<RivalFacts>,
}

#[derive(Debug, Serialize)]
struct RivalFacts {
    name: String,
    version: String,
    language: String,
    settings: String,
}

impl Machine {
    pub(super) async fn look(bed: &BenchServer, quick: bool) -> anyhow::Result<Self> {
        let mut connection = bed.connect().await?;
        let postgres: String = sqlx::query_scalar("show server_version").fetch_one(&mut connection).await?;
        let mut settings = Vec::new();
        for (name, _) in SETTINGS {
            let value: String = sqlx::query_scalar("select current_setting($1)")
                .bind(name)
                .fetch_one(&mut connection)
                .await?;
            settings.push((name.to_owned(), value));
        }
        connection.close().await?;
        Ok(Self {
            began_at: Utc::now(),
            command: std::env::args().collect::<Vec<_>>().join(" "),
            quick,
            railhost: env!("CARGO_PKG_VERSION").to_owned(),
            development_build: cfg!(debug_assertions),
            processor: told("cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: told("meminfo", "MemTotal"),
            kernel: told("sys/kernel/osrelease", ""),
            load_average: told("loadavg", ""),
            postgres,
            settings,
            rivals: Vec::new(),
        })
    }

    pub(super) fn with_rivals(self, rivals: &[Rival]) -> Self {
        let facts = |rival: &Rival| RivalFacts {
            name: rival.name.clone(),
            version: rival.version.clone(),
            language: rival.language.clone(),
            settings: rival.settings.clone(),
        };
        Self { rivals: rivals.iter().map(facts).collect(), ..self }
    }

    /// The head of the report.
    pub(super) fn text(&self) -> String {
        let settings: Vec<_> =
            self.settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let mut text = String::new();
        if self.quick || self.development_build {
            text += "**A smoke test: its figures mean nothing.**\n\n";
        }
        text += &format!(
            "{}, {} cores, {} of memory, Linux {}, load average at the start {}. railhost {}, PostgreSQL {}: {}. `{}`, {}.\n",
            self.processor,
            self.cores,
            self.memory,
            self.kernel,
            self.load_average,
            self.railhost,
            self.postgres,
            settings.join(", "),
            self.command,
            self.began_at.format("%Y-%m-%d %H:%M UTC"),
        );
        for rival in &self.rivals {
            text += &format!("- {} {} ({}): {}\n", rival.name, rival.version, rival.language, rival.settings);
        }
        text
    }
}

/// What /proc says under a name, where there is a /proc.
fn told(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(Path::new("/proc").join(file)).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or("unknown");
    line.split_once(':').map_or(line, |(_, value)| value).trim().to_owned()
}
