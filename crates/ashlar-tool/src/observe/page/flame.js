// A frame that is clicked fills the width, with its callers above it; a click on the first row
// shows all again. The field marks the functions whose name has its text.
const flame = document.getElementById('flame');
if (flame) {
  const told = document.getElementById('told'), find = document.getElementById('find');
  const frames = [...flame.children].map(box => ({
    box, left: parseFloat(box.style.left), width: parseFloat(box.style.width), top: parseFloat(box.style.top),
  }));
  const near = 0.0005;
  const show = one => {
    for (const other of frames) {
      const over = other.top < one.top && other.left <= one.left + near &&
        other.left + other.width >= one.left + one.width - near;
      const under = other.top >= one.top && other.left >= one.left - near &&
        other.left + other.width <= one.left + one.width + near;
      other.box.hidden = !(over || under);
      other.box.classList.toggle('over', over);
      other.box.style.left = over ? '0%' : (other.left - one.left) * 100 / one.width + '%';
      other.box.style.width = over ? '100%' : other.width * 100 / one.width + '%';
    }
    told.textContent = one.box.title;
  };
  for (const frame of frames) frame.box.addEventListener('click', () => show(frame));
  told.textContent = 'Click a function to make it fill the width.';
  find.hidden = false;
  find.addEventListener('input', () => {
    const text = find.value.toLowerCase();
    for (const { box } of frames) box.classList.toggle('hit', text !== '' && box.textContent.toLowerCase().includes(text));
  });
}
