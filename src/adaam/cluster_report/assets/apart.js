"use strict";
/* What sets some rows apart from all others that are shown: columns by Cohen's d, categories and words by their shares. */
const Apart = (() => {
  const { raw } = Data;
  const LEAST = { effect: 0.5, share: 0.2 };
  const MOST_CATEGORIES = 200;

  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / (values.length || 1);
  const squares = (values, center) => values.reduce((sum, value) => sum + (value - center) ** 2, 0);

  /* One part of the rows against the other, by a column of numbers. */
  function ofNumbers(column, chosen) {
    const [inside, outside] = [[], []];
    column.values.forEach((value, place) => { if (value !== null) (chosen.has(place) ? inside : outside).push(value); });
    if (!inside.length || !outside.length) return [];
    const [own, other] = [mean(inside), mean(outside)];
    const spread = Math.sqrt((squares(inside, own) + squares(outside, other)) / Math.max(1, inside.length + outside.length - 2));
    const effect = spread > 0 ? (own - other) / spread : 0;
    if (Math.abs(effect) < LEAST.effect) return [];
    return [{ weight: Math.abs(effect), words: `${effect > 0 ? "high" : "low"} ${column.name}`, told: `${Data.number(own)} vs ${Data.number(other)}` }];
  }

  /* The same by what rows have or have not: a category, or words. */
  function ofShares(kindsOf, chosen, name) {
    const counts = new Map();
    for (const place of Data.every) {
      for (const kind of new Set(kindsOf(place))) {
        if (!counts.has(kind)) counts.set(kind, [0, 0]);
        counts.get(kind)[chosen.has(place) ? 0 : 1] += 1;
      }
    }
    const [inside, outside] = [chosen.size, Math.max(1, Data.every.length - chosen.size)];
    return [...counts].flatMap(([kind, [own, other]]) => {
      const [share, rest] = [own / inside, other / outside];
      if (share - rest < LEAST.share) return [];
      const variance = (share * (1 - share) + rest * (1 - rest)) / 2;
      return [{ weight: (share - rest) / Math.sqrt(Math.max(variance, 1e-3)), words: name(kind), told: `${Math.round(100 * share)} % vs ${Math.round(100 * rest)} %` }];
    });
  }

  const tokens = (text) => text.toLowerCase().match(/[\p{L}][\p{L}\p{N}'’-]{2,}/gu) ?? [];

  /* The most telling ones first. */
  function of(chosen, most = 5) {
    if (!chosen.size || chosen.size === Data.every.length) return [];
    const found = raw.columns.flatMap((column) => {
      if (column.number) return ofNumbers(column, chosen);
      if (new Set(column.values).size > MOST_CATEGORIES) return [];
      return ofShares((place) => (column.values[place] === null ? [] : [column.values[place]]), chosen, (kind) => `${column.name}: ${kind}`);
    });
    if (raw.texts) found.push(...ofShares((place) => tokens(raw.texts[place]), chosen, (word) => word));
    return found.sort((a, b) => b.weight - a.weight).slice(0, most);
  }
  return { of };
})();
