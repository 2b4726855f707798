create or replace function symphony.identifier_problem(p_name text, p_value text) returns text
  language sql immutable parallel safe
  as $$
    select case
      when p_value ~ '^[\x09-\x0d\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|[\x09-\x0d\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]$'
        then p_name || ' must not begin or end with white space'
      when p_value ~ '[\x01-\x1f\x7f-\x9f]'
        then p_name || ' must not contain control characters'
    end
  $$;

comment on function symphony.identifier_problem(text, text) is
  'What is wrong with a name, or null. Nothing is trimmed: a person would take two names that differ only in white space for one. White space and control characters are those of Unicode.';
