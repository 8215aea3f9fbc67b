// Runs before the first paint: the theme that was chosen, so that nothing flashes.
try {
  const chosen = localStorage.getItem("warploom.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the system's theme holds.
}
