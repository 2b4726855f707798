use std::time::Duration;

use tokio::time::timeout;

use super::figures::{FigureRow, RunEnding, Sample, Taken, number};
use super::ground::BenchSetup;
use super::scenario::Scenario;
use terminal::print::say;

/// Lets everybody run once in every round, each round beginning with another, so that what changes on the machine meets all alike.
/// Whoever fails or takes too long has no further turn.
pub(super) async fn in_turns<T>(
    ground: &BenchSetup,
    scenario: &Scenario,
    mut entrants: Vec<(FigureRow, T)>,
    run: impl AsyncFn(&T) -> anyhow::Result<Sample>,
) -> anyhow::Result<Vec<FigureRow>> {
    let (rounds, limit_seconds) = (ground.rounds(scenario), scenario.common.limit_seconds);
    let shown = &scenario.kind.shape().plotted;
    for round in 0..rounds {
        for place in order(entrants.len(), round) {
            let (line, entrant) = &mut entrants[place];
            let entrant: &T = entrant;
            if line.ending.is_some() {
                continue;
            }
            let said = match timeout(Duration::from_secs(limit_seconds), run(entrant)).await {
                Ok(Ok(figures)) => {
                    let figure = figures.get(shown.figure).copied().unwrap_or(f64::NAN);
                    line.samples.push(Taken { round, figures });
                    format!("{} {}", number(figure), shown.heading)
                }
                Ok(Err(error)) => {
                    let ending = RunEnding::Failed(format!("{error:#}"));
                    line.ending.insert(ending).text()
                }
                Err(_) => line.ending.insert(RunEnding::NotFinishedInSeconds(limit_seconds)).text(),
            };
            say(&format!("  round {} of {rounds}, {}: {said}", round + 1, line.name));
            ground.bed.drop_databases().await?;
        }
    }
    Ok(entrants.into_iter().map(|(line, _)| line).collect())
}

/// Who runs when in a round.
fn order(entrants: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..entrants).map(move |place| (place + round) % entrants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_begins_with_another_and_leaves_nobody_out() {
        for (round, expected) in [(0, [0, 1, 2]), (1, [1, 2, 0]), (2, [2, 0, 1]), (3, [0, 1, 2])] {
            assert_eq!(order(3, round).collect::<Vec<_>>(), expected);
        }
        assert_eq!(order(0, 5).count(), 0);
    }
}
