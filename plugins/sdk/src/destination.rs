use crate::Destination;

impl Destination {
    /// The part with this name, or the whole destination where the payment names it by a single text.
    pub fn part(&self, name: &str) -> Option<&str> {
        self.field(name).or(self.plain.as_deref())
    }

    /// The part with this name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }
}
