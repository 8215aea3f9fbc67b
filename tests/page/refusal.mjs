// Answers that are problems.

/** An answer that is a problem. */
export class Refusal extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

export const missing = (what) => new Refusal(404, "E-API-MISSING", `there is no ${what}`);
