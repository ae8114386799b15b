// Plays the frames on the canvas over the first map, and moves the cursors of the gauges along.
(() => {
  const data = JSON.parse(document.getElementById("frames").textContent);
  const canvas = document.getElementById("wave");
  const slider = document.getElementById("when");
  const button = document.getElementById("play");
  const clock = document.getElementById("clock");
  const paint = canvas.getContext("2d");
  const charts = [...document.querySelectorAll(".gauge-chart")];
  const images = data.images.map((source) => Object.assign(new Image(), { src: source }));
  let timer = null;

  const show = (frame) => {
    const image = images[frame];
    const draw = () => Number(slider.value) === frame && paint.drawImage(image, 0, 0, canvas.width, canvas.height);
    slider.value = frame;
    if (image.complete) draw(); else image.onload = draw;
    clock.textContent = data.labels[frame];
    for (const chart of charts) {
      const { left, right, end } = chart.dataset;
      const x = Number(left) + (data.minutes[frame] / Number(end)) * (Number(right) - Number(left));
      const cursor = chart.querySelector(".cursor");
      cursor.setAttribute("transform", `translate(${Math.min(x, Number(right))} 0)`);
      cursor.setAttribute("visibility", "visible");
    }
  };
  const stop = () => { clearInterval(timer); timer = null; button.textContent = "Play"; };
  const step = () => {
    const next = Number(slider.value) + 1;
    if (next >= images.length) return stop();
    show(next);
  };
  button.onclick = () => {
    if (timer) return stop();
    if (Number(slider.value) === images.length - 1) show(0);
    button.textContent = "Pause";
    timer = setInterval(step, 110);
  };
  slider.oninput = () => { stop(); show(Number(slider.value)); };
  show(data.start);
  if (!matchMedia("(prefers-reduced-motion: reduce)").matches) setTimeout(() => { show(0); button.click(); }, 1200);
})();
