//! Text for people. Scripts get JSON from the commands themselves.

/// A remark on what is going on, out of the way of the answer.
pub(super) fn say(remark: &str) {
    eprintln!("{remark}");
}

/// Columns under their headings; numbers to the right.
pub(super) fn table(headings: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .chain([headings[column].len()])
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    let numeric: Vec<bool> = (0..headings.len())
        .map(|column| {
            rows.iter().all(|row| row[column].chars().all(|c| c.is_ascii_digit() || ".-%".contains(c)))
        })
        .collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .zip(&numeric)
            .map(
                |((cell, &width), &numeric)| {
                    if numeric { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
                },
            )
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = line(&mut headings.iter().copied());
    for row in rows {
        text += &line(&mut row.iter().map(String::as_str));
    }
    text
}

/// An age or a duration, in the unit a person would say it in.
pub(super) fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.0} ms", s * 1000.0),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_aligns_words_left_and_numbers_right() {
        let text = table(
            &["rail", "pending"],
            &[vec!["mtn".into(), "7".into()], vec!["airtel".into(), "12".into()]],
        );
        assert_eq!(text, "rail    pending\nmtn           7\nairtel       12\n");
    }
}
