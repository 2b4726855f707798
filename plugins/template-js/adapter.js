// The adapter's exports, and what the rail's replies say by the names of rail.toml.

// What this rail takes at most in one payment, in the currency's smallest unit.
const MINOR_UNITS_MAX = 100_000_000_000_000_000n;

export const adapter = {
  describe() {
    return {
      name: 'example',
      version: '0.1.0',
      currencies: [],
      settings: [],
      variables: [],
      facts: ['status', 'reason', 'body'],
    };
  },

  // What the fields of rail.toml cannot say.
  validate(payment) {
    // Without its point the amount is in the smallest unit. A number would not be the amount any more.
    const digits = payment.amount.replace('.', '');
    if (!/^[0-9]+$/.test(digits) || BigInt(digits) > MINOR_UNITS_MAX) {
      throw [{ field: 'amount', problem: 'is more than this rail takes' }];
    }
  },

  // rail.toml leaves no variable to the adapter.
  disburse(payment) {
    return [];
  },

  queryStatus(payment) {
    return [];
  },

  // An adapter's own reading can only make the host ask again: read strictly, and say no more than the reply does.
  read(operation, step, reply) {
    try {
      return facts(reply);
    } catch (error) {
      // What is thrown is the result's error. An Error itself would end the call.
      throw error.message;
    }
  },
};

// What follows from a fact is for the code table of rail.toml to say.
function facts(reply) {
  // It keeps a byte order mark, which is not JSON, and refuses what is not UTF-8.
  const body = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(reply.body);
  // An empty 404 is all that the rail says of a payment that it does not know.
  if (reply.status === 404 && /^[ \t\n\f\r]*$/.test(body)) {
    return [['body', 'blank']];
  }
  const said = strictJson(body);
  if (said === null || typeof said !== 'object' || Array.isArray(said)) {
    throw new Error('the reply is no object');
  }
  const { status = null, reason = null } = said;
  if (status === null) {
    throw new Error('status is missing');
  }
  const found = [['status', text('status', status)]];
  return reason === null ? found : [...found, ['reason', text('reason', reason)]];
}

function text(name, value) {
  // Half a character, such as "\ud800", is no text either: it would leave as another character.
  if (typeof value !== 'string' || !value.isWellFormed()) {
    throw new Error(`${name} is no text`);
  }
  return value;
}

// JavaScript alone would take a member that stands there twice, and make floats of numbers: a number is an object here, with its digits
// as they were written in `rawJSON`.
function strictJson(body) {
  const said = JSON.parse(body, (_, value, { source }) =>
    typeof value === 'number' ? JSON.rawJSON(source) : value,
  );
  const open = [];
  let last;
  // It is JSON: a colon outside of a text follows the name of a member.
  for (const [token] of body.matchAll(/"(?:[^"\\]|\\.)*"|[{}:]/g)) {
    if (token === '{') {
      open.push(new Set());
    } else if (token === '}') {
      open.pop();
    } else if (token !== ':') {
      last = token;
    } else if (open.at(-1).size === open.at(-1).add(JSON.parse(last)).size) {
      throw new Error('a member stands there twice');
    }
  }
  return said;
}
