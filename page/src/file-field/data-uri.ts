/** Read a file as the data URI that a request carries. */
export function dataUri(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => {
      const text = String(reader.result);
      resolve(file.type ? text : text.replace(/^data:[^;,]*/, 'data:application/octet-stream'));
    };
    reader.onerror = () => reject(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}
