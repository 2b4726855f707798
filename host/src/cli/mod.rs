//! The command line: what a person or a script asks, one file per kind of question.

mod accept;
mod act_reason;
mod adapters;
pub(crate) mod arguments;
mod bulk;
mod check;
mod choose;
mod documents;
mod enqueue;
mod examples;
pub(crate) mod exit;
mod import;
mod list;
mod operate;
mod plugin;
#[cfg(feature = "dev")]
mod private;
mod retention;
mod serve;
mod session;
mod settle;
mod show;
mod shown;
mod strict_json;
mod sums;

use std::process::ExitCode;

use clap::CommandFactory;

use crate::config::Config;
use arguments::{Arguments, Command};
use session::CommandContext;

const CONFIG_DEFAULT: &str = "config/development.toml";

pub(crate) async fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let asked_for = arguments.config.is_some();
    let file = arguments.config.unwrap_or_else(|| CONFIG_DEFAULT.into());
    let command = match arguments.command {
        #[cfg(feature = "dev")]
        Command::Dev(dev::Command::Simulate(simulate)) => return simulate.run().await,
        #[cfg(feature = "dev")]
        Command::Dev(dev::Command::Bench(bench)) => return bench.run().await,
        Command::Completions(completions) => return completions.run(Arguments::command()),
        Command::Man(man) => return man.run(Arguments::command()),
        other => other,
    };
    let load = || Ok(Config::load(&file, asked_for)?);
    let command = match command {
        Command::Plugin(plugin) if !plugin.needs_database() => return plugin.run(load, arguments.json).await,
        other => other,
    };
    let checks = matches!(command, Command::Check);
    // Whoever checks wants to know all that is wrong; everybody else is refused at the first of it.
    let config = if checks { Config::gather(&file, asked_for)? } else { load()? };
    #[cfg(feature = "dev")]
    let dev = arguments.dev
        || matches!(command, Command::Dev(_))
        || matches!(&command, Command::Plugin(plugin) if plugin.is_private());
    #[cfg(not(feature = "dev"))]
    let dev = false;
    if checks && !dev && config.database().is_err() {
        return check::run(&config, None, arguments.json).await;
    }
    let session = match dev {
        #[cfg(feature = "dev")]
        true => CommandContext::open_private(config, arguments.json).await?,
        _ => CommandContext::open(config, arguments.json)?,
    };
    let ends_with_interrupt = matches!(&command, Command::Status(status) if status.watch);
    let answer = match command {
        Command::Serve(serve) => serve.run(&session).await,
        other => tokio::select! {
            answer = session.answer(other) => answer,
            _ = tokio::signal::ctrl_c() => match ends_with_interrupt {
                true => Ok(ExitCode::SUCCESS),
                false => Err(anyhow::anyhow!("interrupted")),
            },
        },
    };
    #[cfg(feature = "dev")]
    session.close().await?;
    answer
}

impl CommandContext {
    async fn answer(&self, command: Command) -> anyhow::Result<ExitCode> {
        match command {
            #[cfg(feature = "dev")]
            Command::Dev(dev::Command::Demo(demo)) => self.demo(demo).await,
            Command::Migrate => self.migrate().await,
            Command::Enqueue(enqueue) => enqueue.run(self).await,
            Command::Cancel(cancel) => cancel.run(self).await,
            Command::Status(status) => status.run(self).await,
            Command::List(list) => list.run(self).await,
            Command::Find(find) => find.run(self).await,
            Command::Timeline(timeline) => timeline.run(self).await,
            Command::Gaps(gaps) => gaps.run(self).await,
            Command::Pause(rail) => rail.pause(self).await,
            Command::Resume(rail) => rail.resume(self).await,
            Command::Suspend(suspend) => suspend.run(self).await,
            Command::Reinstate(reinstate) => reinstate.run(self).await,
            Command::Order(order) => order.run(self).await,
            Command::Reissue(reissue) => reissue.run(self).await,
            Command::Resolve(resolve) => resolve.run(self).await,
            Command::Retention(retention) => retention.run(self).await,
            Command::Check => check::run(&self.config, Some(self.database()), self.json).await,
            Command::Plugin(plugin) => plugin.run_on(self).await,
            #[cfg(feature = "dev")]
            Command::Dev(_) => unreachable!("it was answered before"),
            Command::Completions(_) | Command::Man(_) | Command::Serve(_) => {
                unreachable!("it was answered before")
            }
        }
    }
}
