//! Bar charts, written by hand. The background is part of the picture, so that it can be read on a dark page too.

use super::figures::{Spread, number};

/// A contestant's median, and how far its samples lie apart.
#[derive(Debug)]
pub(super) struct Bar {
    pub name: String,
    pub spread: Option<Spread>,
    pub highlighted: bool,
    /// Stands where the bar would, or behind it.
    pub note: Option<String>,
}

const WIDTH: f64 = 780.0;
const LEFT: f64 = 230.0;
/// Room for the number behind the longest bar.
const RIGHT: f64 = 150.0;
const TOP: f64 = 52.0;
const BAR: f64 = 20.0;
const STEP: f64 = 32.0;
const FONT: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const INK: &str = "#24292f";
const QUIET: &str = "#8c959f";
const OURS: &str = "#0969da";

/// Horizontal bars with whiskers from the least to the most.
pub(super) fn bars(title: &str, bars: &[Bar]) -> String {
    let height = TOP + STEP * bars.len() as f64 + 12.0;
    let most = bars.iter().filter_map(|bar| bar.spread).map(|spread| spread.most).fold(0.0, f64::max);
    let scale = if most > 0.0 { (WIDTH - LEFT - RIGHT) / most } else { 0.0 };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"{FONT}\" font-size=\"13\" role=\"img\">\n\
         <title>{title}</title>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" rx=\"8\" fill=\"#ffffff\"/>\n\
         <text x=\"16\" y=\"28\" font-size=\"15\" font-weight=\"600\" fill=\"{INK}\">{title}</text>\n",
        title = escaped(title)
    );
    for (place, bar) in bars.iter().enumerate() {
        svg += &drawn(bar, TOP + STEP * place as f64, scale);
    }
    svg + "</svg>\n"
}

fn drawn(bar: &Bar, y: f64, scale: f64) -> String {
    let (fill, weight) = if bar.highlighted { (OURS, 600) } else { (QUIET, 400) };
    let (middle, base) = (y + BAR / 2.0, y + BAR / 2.0 + 4.5);
    let mut svg = format!(
        "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\" font-weight=\"{weight}\" fill=\"{INK}\">{}</text>\n",
        LEFT - 10.0,
        escaped(&bar.name)
    );
    let (mut end, mut words) = (LEFT, Vec::new());
    if let Some(spread) = bar.spread {
        let at = |value: f64| LEFT + value.max(0.0) * scale;
        let (least, most) = (at(spread.least), at(spread.most));
        svg += &format!(
            "<rect x=\"{LEFT:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR:.1}\" rx=\"2\" fill=\"{fill}\"/>\n",
            at(spread.median) - LEFT
        );
        if most > least {
            svg += &format!(
                "<path d=\"M{least:.1} {middle:.1}H{most:.1}M{least:.1} {:.1}V{:.1}M{most:.1} {:.1}V{:.1}\" stroke=\"{INK}\" stroke-width=\"1.5\" fill=\"none\"/>\n",
                middle - 4.0,
                middle + 4.0,
                middle - 4.0,
                middle + 4.0
            );
        }
        end = at(spread.median).max(most);
        words.push(number(spread.median));
    }
    words.extend(bar.note.clone());
    svg + &format!(
        "<text x=\"{:.1}\" y=\"{base:.1}\" font-weight=\"{weight}\" fill=\"{INK}\">{}</text>\n",
        end + 8.0,
        escaped(&words.join(", "))
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(name: &str, spread: Option<Spread>) -> Bar {
        Bar { name: name.to_owned(), spread, highlighted: false, note: None }
    }

    #[test]
    fn no_name_can_break_the_picture() {
        let svg = bars("a < b & \"c\"", &[bar("<script>", None)]);
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;") && svg.contains("&lt;script&gt;"), "{svg}");
        roxmltree::Document::parse(&svg).expect("it is XML");
    }

    #[test]
    fn the_longest_whisker_ends_where_the_numbers_begin() {
        let spread = |median, least, most| Some(Spread { median, least, most });
        let svg =
            bars("t", &[bar("long", spread(90.0, 80.0, 100.0)), bar("short", spread(10.0, 10.0, 10.0))]);
        assert!(svg.contains(&format!("H{:.1}", WIDTH - RIGHT)), "{svg}");
        assert_eq!(svg.matches("<path").count(), 1, "no whisker where nothing is spread:\n{svg}");
        assert!(svg.contains(">90.0<") && svg.contains(">10.0<"), "{svg}");
    }

    #[test]
    fn nothing_measured_is_still_a_picture() {
        let svg = bars("t", &[bar("nobody", None)]);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }
}
